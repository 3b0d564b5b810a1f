// Tokens that the upper layers leave out: a linear classifier of the rows above the lower layers says which. Those
// kept run the upper layers as a shorter sequence, whose tokens stand where they stood [TB 6.4.6, Fig 6.16b; Goyal et
// al. 2020, Guan et al. 2022].
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/ops/feature_map.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/some_rows.h"

namespace lithe {
namespace {

struct TokenSkipConfig {
  int64_t after = 1;
  std::string skipped = "copy";
  double threshold = 0.5, budget = 0.5, budget_loss_coef = 1, start = 0.2;
  bool keep_first = true;
  void fields(Fields& f) {
    f("after", after, "number of lower layers, which all tokens run", at_least(1));
    f("skipped", skipped,
      "copy: rows of skipped tokens bypass the upper layers; drop: they are removed, for heads that predict for whole "
      "sequences",
      one_of({"copy", "drop"}));
    f("threshold", threshold, "skip a token if Pr(skip) is at least this; above 1: skip none", between(0, 2));
    f("keep_first", keep_first,
      "never skip the first token of a sequence, [CLS]; the token that is most likely kept is never skipped anyway");
    f("budget", budget, "target for the mean share of tokens that are kept", between(0, 1));
    f("budget_loss_coef", budget_loss_coef, "weight of an auxiliary loss, (mean Pr(keep) - budget)^2", at_least(0));
    f("start", start, "initial Pr(skip) of the classifier", between(0.01, 0.99));
  }
};

class TokenSkip final : public Stack {
 public:
  TokenSkip(const Scope& scope, const TokenSkipConfig& config, const Args& args)
      : config_(config),
        depth_(args.num_hidden_layers),
        gate_(scope / "skip", Axis::hidden(args.hidden_size), 2, true, InitRole::zeros) {
    check_usage(config.after < depth_, "token_skip", "after is ", config.after, ", which leaves no upper layer of ",
                depth_, "; choose at most ", depth_ - 1);
    if (!gate_.bias->master.value().is_meta()) set_value(gate_.bias->master.value(), 1, logit_of(config.start));
  }

  bool selective() const override { return true; }
  bool drops() const override { return config_.skipped == "drop"; }

  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    Rows low = x;
    for (int64_t l = 0; l < config_.after; ++l) low = layers.run(l, low, pass);
    const Var logits = gate_(low.x);                                // [N, 2]: keep, skip
    const Var chances = softmax_features(cast(logits, wide()), 1);  // [N, 2]
    const std::vector<char> kept = keep(chances.value(), low.sequences);
    std::vector<int64_t> rows, offsets{0};
    for (int64_t b = 0; b < low.sequences.count(); ++b) {
      for (int64_t r = low.sequences.offset(b); r < low.sequences.offset(b + 1); ++r)
        if (kept[size_t(r)]) rows.push_back(r);
      offsets.push_back(int64_t(rows.size()));
    }
    const bool all = int64_t(rows.size()) == low.sequences.rows();
    Sequences shorter = low.sequences;
    if (!all) {
      std::vector<int32_t> stand;  // where they stood
      for (const int64_t row : rows) stand.push_back(low.sequences.positions().data<int32_t>()[row]);
      shorter = Sequences(offsets, {}, low.x.device()).at(tensor_of({int64_t(stand.size())}, stand));
    }
    const Var entering = all ? low.x : pick_rows(low.x, rows);
    Rows high{entering, shorter};
    for (int64_t l = config_.after; l < depth_; ++l) high = layers.run(l, high, pass);
    if (training()) {
      high.x = chosen(high.x, entering, chances, rows);
      learn_budget(chances, pass);
    }
    if (all || config_.skipped == "drop") return high;
    std::vector<int64_t> from(size_t(low.sequences.rows()));
    int64_t next = 0;
    for (size_t r = 0; r < from.size(); ++r) from[r] = kept[r] ? next++ : high.x.rows() + int64_t(r);
    return {pick_rows(concatenate_rows({high.x, low.x}), from), low.sequences};
  }

 private:
  TokenSkipConfig config_;
  int64_t depth_;
  Linear gate_;

  DType wide() const { return gate_.weight->master.dtype() == DType::f64 ? DType::f64 : DType::f32; }

  // A plan counts all tokens: the most that a step may need.
  std::vector<char> keep(const Tensor& chances, const Sequences& s) const {
    std::vector<char> out(size_t(s.rows()), 1);
    if (chances.is_meta()) return out;
    for (int64_t b = 0; b < s.count(); ++b) {
      int64_t likeliest = s.offset(b), count = 0;
      for (int64_t r = s.offset(b); r < s.offset(b + 1); ++r) {
        const double skip = value_at(chances, 2 * r + 1);
        if (skip < value_at(chances, 2 * likeliest + 1)) likeliest = r;
        out[size_t(r)] = skip < config_.threshold || (config_.keep_first && r == s.offset(b));
        count += out[size_t(r)];
      }
      if (!count && s.length(b)) out[size_t(likeliest)] = 1;
    }
    return out;
  }

  // Rows [M, D] that ran the upper layers, as they are. Their gradient is that of the choice g upper + (1 - g) low at
  // g = 1, with Pr(keep) of [N, 2] chances for g [Bengio et al. 2013]; a row that was skipped has no upper(x) to
  // compare with, and its chance learns nothing from the loss.
  static Var chosen(const Var& upper, const Var& low, const Var& chances, const std::vector<int64_t>& rows) {
    if (!in_training_step()) return upper;  // the choice is the constant that it is
    const Tensor y = upper.value(), x = low.value();
    return record("choose_rows", {upper, chances}, y,
                  [y, x, rows, shape = chances.shape(), wide = chances.dtype(), upper = upper.ref(),
                   chances = chances.ref()](const Tensor& dy, Grads& g) {
                    g.give(upper, dy);
                    if (!g.wants(chances)) return;
                    const Tensor to = zeros(shape, wide, dy.device());
                    const int64_t d = y.cols();
                    for (size_t i = 0; i < rows.size() && !to.is_meta(); ++i) {
                      double sum = 0;
                      for (int64_t c = int64_t(i) * d; c < int64_t(i + 1) * d; ++c)
                        sum += value_at(dy, c) * (value_at(y, c) - value_at(x, c));
                      set_value(to, 2 * rows[i], sum);
                    }
                    g.give(chances, to);
                  });
  }

  void learn_budget(const Var& chances, const Pass& pass) const {
    if (config_.budget_loss_coef == 0) return;
    const int64_t n = chances.rows();
    std::vector<int64_t> of_keep;
    for (int64_t r = 0; r < n; ++r) of_keep.push_back(2 * r);
    const Var mean = scale(sum(pick_rows(reshape(chances, {2 * n, 1}), of_keep)), 1 / double(n));
    const Var above = add(mean, Var(filled({1}, config_.budget, mean.dtype(), mean.device())), 1, -1);
    pass.add_loss("token_budget", scale(mul(above, above), config_.budget_loss_coef));
  }
};

}  // namespace

void register_stack_token_skip(Registry& registry) {
  registry.add<Stack, TokenSkip, TokenSkipConfig>(
      "token_skip", {.spec = "cond.token_skip",
                     .summary = "a classifier chooses tokens that skip the upper layers of an encoder",
                     .source = "TB 6.4.6, Fig 6.16b",
                     .causal = false});
}

}  // namespace lithe
