// Exits: the head, or one of its own, predicts from the rows above some layers, too, and learns there. By a rule
// (nn/exits.h) rows whose prediction is good enough leave: they pass the layers above as they are, which keep of them
// what later tokens read [TB 6.4.6, Eq 6.194, Fig 6.16d,e; Elbayad et al. 2020; Schuster et al. 2022].
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/pool.h"
#include "lithe/parts/common/exit_tests.h"
#include "lithe/parts/common/some_rows.h"

namespace lithe {
namespace {

using Criterion = ExitRule::Criterion;

constexpr const char* kWholeText =
    ": how sure a model is of a whole text is known at its end, and its rows see only the tokens before them; leave "
    ":sentence out";

struct EarlyExitConfig {
  std::vector<int64_t> layers;
  bool share_heads = true, depth_predictor = false;
  std::string loss_weights = "uniform";
  double exit_loss_coef = 1;
  void fields(Fields& f) {
    f("layers", layers, "layers, from 1, that have an exit; empty: all but the last");
    f("share_heads", share_heads, "all exits use the model's own head; false: each exit has its own head");
    f("loss_weights", loss_weights,
      "weight of the loss of an exit after layer l of L: uniform: 1; linear: l / L; the last layer has the weight 1",
      one_of({"uniform", "linear"}));
    f("exit_loss_coef", exit_loss_coef, "common factor on these weights", at_least(0));
    f("depth_predictor", depth_predictor,
      "train a linear map of the first layer's rows to predict the first exit whose prediction agrees with the last "
      "layer's, for generate.exit: predictor");
  }
};

class EarlyExit final : public Stack {
 public:
  EarlyExit(const Scope& scope, const EarlyExitConfig& config, const Args& args)
      : config_(config), depth_(args.num_hidden_layers) {
    std::vector<int64_t> after = config.layers;
    for (int64_t l = 1; l < depth_ && config.layers.empty(); ++l) after.push_back(l);
    std::sort(after.begin(), after.end());
    for (size_t i = 0; i < after.size(); ++i) {
      const int64_t l = after[i];
      check_usage(l >= 1 && l < depth_, "early_exit", "rows cannot leave early after layer ", l, " of ", depth_,
                  "; give layers from 1 to ", depth_ - 1);
      check_usage(i == 0 || l > after[i - 1], "early_exit", "layer ", l, " stands twice in layers; name it once");
      const double weight = config.loss_weights == "linear" ? double(l) / double(depth_) : 1;
      exits_.push_back({.layer = l - 1, .weight = weight * config.exit_loss_coef, .own_head = !config.share_heads});
    }
    check_usage(!exits_.empty(), "early_exit", "a stack of ", depth_,
                " layers has no exit below the last; give it more");
    if (config.depth_predictor)
      predictor_ = Linear(scope / "depth_predictor", Axis::hidden(args.hidden_size), int64_t(exits_.size()) + 1, true);
  }
  bool selective() const override { return true; }
  std::vector<StackExit> exits() const override { return exits_; }

  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    ExitRun* run = pass.exits();
    if (run && !x.x.value().is_meta()) return leave(layers, x, pass, *run);
    Rows rows = x, first;
    std::vector<Rows> left;
    for (int64_t l = 0; l < layers.count(); ++l) {
      rows = layers.run(l, rows, pass);
      if (!predictor_.weight || !training()) continue;
      // Layers above read them apart, so that gradients add up alike where those are recomputed.
      if (l == 0) first = rows, rows.x = reshape(rows.x, rows.x.shape());
      if (exit_after(l) >= 0) left.push_back(rows);
    }
    const ExitHeads* heads = layers.exit_heads();
    if (predictor_.weight && training() && heads) learn_depth(*heads, first, left, rows, pass);
    return rows;
  }

 private:
  EarlyExitConfig config_;
  int64_t depth_;
  std::vector<StackExit> exits_;
  Linear predictor_;

  int64_t exit_after(int64_t layer) const {
    for (size_t e = 0; e < exits_.size(); ++e)
      if (exits_[e].layer == layer) return int64_t(e);
    return -1;
  }

  static const ExitHeads& heads_of(const Layers& layers) {
    const ExitHeads* heads = layers.exit_heads();
    check(heads != nullptr, "early_exit", "these layers have no heads for exits");
    return *heads;
  }

  // ---- learning the depth

  static std::vector<int32_t> classes_of(const Tensor& logits) {
    std::vector<int32_t> out(size_t(logits.rows()), 0);
    for (int64_t r = 0; r < logits.rows() && !logits.is_meta(); ++r)
      for (int64_t c = 1; c < logits.cols(); ++c)
        if (value_at(logits, r * logits.cols() + c) > value_at(logits, r * logits.cols() + out[size_t(r)]))
          out[size_t(r)] = int32_t(c);
    return out;
  }

  void learn_depth(const ExitHeads& heads, const Rows& first, const std::vector<Rows>& left, const Rows& last,
                   const Pass& pass) const {
    std::vector<std::vector<int32_t>> classes;
    {
      const NoGrad no_grad;
      for (size_t e = 0; e < left.size(); ++e)
        classes.push_back(classes_of(heads.predict(int64_t(e), left[e]).value()));
      classes.push_back(classes_of(heads.predict(-1, last).value()));
    }
    const auto units = int64_t(classes.back().size());
    const Tensor labels = empty({units}, DType::i32, last.x.device());
    for (int64_t u = 0; u < units && !labels.is_meta(); ++u) {
      size_t e = 0;
      while (classes[e][size_t(u)] != classes.back()[size_t(u)]) ++e;
      labels.data<int32_t>()[u] = int32_t(e);
    }
    pass.add_loss("exit_depth", cross_entropy(depths(first, units), labels, 0, 1 / double(units)));
  }
  /// Logits of the exits, the last one being none, [units, exits + 1].
  Var depths(const Rows& first, int64_t units) const {
    const Var& rows = first.x;
    return predictor_(units == rows.rows() ? rows : pool(rows, first.sequences, "mean"));
  }

  // ---- leaving by a rule

  // The rows of one pass.
  struct Going {
    const ExitHeads& heads;
    ExitRun& run;
    bool sentences;  // rows of a sequence leave together
    std::vector<char> goes;
    ExitTests tests;
    std::vector<int32_t> depth;  // predictor: the exit of each row
  };

  Rows leave(const Layers& layers, const Rows& x, const Pass& pass, ExitRun& run) const {
    const ExitRule& rule = run.rule;
    const ExitHeads& heads = heads_of(layers);
    check_usage(rule.criterion != Criterion::layer || exit_after(int64_t(rule.threshold) - 1) >= 0 ||
                    int64_t(rule.threshold) == depth_,
                "exit", "rule ", text_of(rule), ": there is no exit after that layer; this model has them after ",
                named(exits_), " (model.stack.layers)");
    check_usage(rule.criterion != Criterion::predictor || predictor_.weight, "exit",
                "rule predictor needs a model that was trained with model.stack: {type: early_exit, depth_predictor: "
                "true}");
    check_usage(rule.unit != ExitRule::Unit::sentence || rule.criterion != Criterion::similarity || !heads.causal(),
                "exit", "rule ", text_of(rule), kWholeText);
    run.begin(x.sequences.rows(), depth_);
    const bool sentences =
        rule.unit == ExitRule::Unit::sentence || (rule.unit == ExitRule::Unit::automatic && !heads.causal());
    Going going{.heads = heads,
                .run = run,
                .sentences = sentences,
                .goes = std::vector<char>(size_t(x.sequences.rows()), 1),
                .tests = ExitTests(rule, std::max(x.sequences.rows(), x.sequences.count())),
                .depth = {}};
    Rows at = x;
    for (int64_t l = 0; l < depth_; ++l) {
      const Var before = at.x;
      at = run_some(layers, l, at, going.goes, pass);
      if (rule.criterion == Criterion::predictor && l == 0) {
        const bool pooled = sentences;
        going.depth = classes_of(depths(at, pooled ? at.sequences.count() : at.sequences.rows()).value());
      }
      if (const int64_t exit = exit_after(l); exit >= 0) test(exit, before, at, going);
    }
    // Those that ran to the end.
    for (int64_t b = 0; b < x.sequences.count(); ++b)
      for (int64_t row = x.sequences.offset(b); row < x.sequences.offset(b + 1); ++row)
        if (going.goes[size_t(row)]) {
          ++run.ran[size_t(depth_)];
          if (going.sentences) break;
        }
    return at;
  }

  static std::string named(const std::vector<StackExit>& exits) {
    std::string out;
    for (const StackExit& e : exits) out += cat(out.empty() ? "" : ", ", e.layer + 1);
    return out;
  }

  // Marks a unit as gone: a row, or all rows of a sequence.
  void go(int64_t exit, int64_t begin, int64_t end, Going& going) const {
    for (int64_t row = begin; row < end; ++row) {
      going.goes[size_t(row)] = 0;
      going.run.exit_of_row[size_t(row)] = int32_t(exit);
    }
    ++going.run.ran[size_t(exits_[size_t(exit)].layer + 1)];
  }

  void test(int64_t exit, const Var& before, const Rows& at, Going& going) const {
    const ExitRule& rule = going.run.rule;
    const Sequences& s = at.sequences;
    const Criterion c = rule.criterion;
    if (c != Criterion::layer && c != Criterion::similarity && c != Criterion::predictor)
      return test_predictions(exit, at, going);
    const int64_t layer = exits_[size_t(exit)].layer;
    if (c == Criterion::layer && layer + 1 != int64_t(rule.threshold)) return;
    if (c == Criterion::similarity && layer == 0) return;  // there is no layer below
    const auto leaves = [&](int64_t unit, int64_t begin, int64_t end) {
      if (c == Criterion::layer) return true;
      if (c == Criterion::predictor) return going.depth[size_t(unit)] == exit;
      double sum = 0;
      for (int64_t row = begin; row < end; ++row) sum += row_cosine(before.value(), row, at.x.value(), row);
      return going.tests.leaves_by_cosine(sum / double(end - begin));
    };
    for (int64_t b = 0; b < s.count(); ++b) {
      if (going.sentences) {
        if (s.length(b) && going.goes[size_t(s.offset(b))] && leaves(b, s.offset(b), s.offset(b + 1)))
          go(exit, s.offset(b), s.offset(b + 1), going);
        continue;
      }
      for (int64_t row = s.offset(b); row < s.offset(b + 1); ++row)
        if (going.goes[size_t(row)] && leaves(row, row, row + 1)) go(exit, row, row + 1, going);
    }
  }

  static constexpr int64_t kRowsAtOnce = 512;  // whose logits are there together
  static constexpr int64_t kKeptLogits = 64;   // rows of a pass whose last logits are kept for who asks for them next

  void test_predictions(int64_t exit, const Rows& at, Going& going) const {
    const Sequences& s = at.sequences;
    std::vector<int64_t> chunk;
    int64_t rows = 0;
    for (int64_t b = 0; b < s.count(); ++b) {
      const auto begin = going.goes.begin() + s.offset(b), end = going.goes.begin() + s.offset(b + 1);
      if (std::none_of(begin, end, [](char g) { return g != 0; })) continue;
      chunk.push_back(b);
      rows += s.length(b);
      if (rows < kRowsAtOnce) continue;
      test_predictions(exit, at, chunk, going);
      chunk.clear(), rows = 0;
    }
    if (!chunk.empty()) test_predictions(exit, at, chunk, going);
  }

  // Of the sequences in `chunk`.
  void test_predictions(int64_t exit, const Rows& at, const std::vector<int64_t>& chunk, Going& going) const {
    const Sequences& s = at.sequences;
    std::vector<int64_t> rows, offsets{0};
    for (const int64_t b : chunk) {
      for (int64_t row = s.offset(b); row < s.offset(b + 1); ++row) rows.push_back(row);
      offsets.push_back(int64_t(rows.size()));
    }
    const bool all = int64_t(rows.size()) == s.rows();
    const Tensor made =
        going.heads.predict(exit, {all ? at.x : pick_rows(at.x, rows), Sequences(offsets, {}, at.x.device())}).value();
    const Tensor logits = convert(made, DType::f32);
    const auto row_of = [&](int64_t i) {
      return std::span<const float>(logits.data<float>() + i * logits.cols(), size_t(logits.cols()));
    };
    const bool by_row = logits.rows() == int64_t(rows.size());
    if (!by_row) {
      check_usage(going.run.rule.unit != ExitRule::Unit::token, "exit", "rule ", text_of(going.run.rule),
                  ": this model's head predicts for whole sequences; leave :token out");
      going.sentences = true;
    }
    check_usage(!going.sentences || !by_row || !going.heads.causal(), "exit", "rule ", text_of(going.run.rule),
                kWholeText);
    for (size_t i = 0; i < chunk.size(); ++i) {
      const int64_t b = chunk[i];
      if (going.sentences) {
        std::vector<std::span<const float>> predicted;
        if (by_row)
          for (int64_t r = offsets[i]; r < offsets[i + 1]; ++r) predicted.push_back(row_of(r));
        else
          predicted.push_back(row_of(int64_t(i)));
        if (going.tests.leaves(b, predicted)) go(exit, s.offset(b), s.offset(b + 1), going);
        continue;
      }
      for (int64_t r = offsets[i]; r < offsets[i + 1]; ++r) {
        const int64_t row = rows[size_t(r)];
        if (!going.goes[size_t(row)] || !going.tests.leaves(row, {row_of(r)})) continue;
        go(exit, row, row + 1, going);
        if (int64_t(rows.size()) <= kKeptLogits) going.run.logits_of_row[size_t(row)] = made.slice(r, r + 1);
      }
    }
  }
};

}  // namespace

void register_stack_early_exit(Registry& registry) {
  registry.add<Stack, EarlyExit, EarlyExitConfig>(
      "early_exit", {.spec = "exit.classifier",
                     .summary = "early exits: heads above several layers, where rows may leave by a rule",
                     .source = "TB 6.4.6, Eq 6.194, Fig 6.16d,e",
                     .samples = {"{layers: [1], loss_weights: linear}", "{depth_predictor: true}"}});
}

}  // namespace lithe
