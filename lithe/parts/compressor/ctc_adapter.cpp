// What stands between an encoder of speech and one of text: a head of connectionist temporal classification on the
// rows, which learns the transcript, a linear map, and fewer rows by what the head says of them [TB 6.5.3, Fig 6.18b;
// Gaido et al. 2021]. Without map and shortening it is joint training by CTC and attention.
#include <cmath>
#include <numeric>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/ctc.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/pool.h"

namespace lithe {
namespace {

struct CtcAdapterConfig {
  int64_t num_labels = 32;
  double loss_coef = 0.3, blank_threshold = 0;
  std::string shrink = "none";
  bool adapter = true, zero_infinity = true;
  void fields(Fields& f) {
    f("num_labels", num_labels, "size V_s of the transcripts' vocabulary, without the CTC blank", between(1, 1 << 20));
    f("loss_coef", loss_coef,
      "lambda: weight of the CTC loss of the transcript (a mean over its labels) beside the model's loss; 0: the CTC "
      "head is not trained",
      at_least(0));
    f("shrink", shrink,
      "rows to pass on: none: all; drop: all except those that the blank dominates; merge: neighbours with the same "
      "label become their mean; drop_merge: both",
      one_of({"none", "drop", "merge", "drop_merge"}));
    f("blank_threshold", blank_threshold,
      "the blank dominates a row if its probability is at least this; 0: if it is the most likely label",
      between(0, 1));
    f("adapter", adapter, "a linear map d to d on the rows");
    f("zero_infinity", zero_infinity,
      "a transcript that needs more rows than there are has a loss of 0; false: it is an error");
  }
};

class CtcAdapter final : public Compressor {
 public:
  CtcAdapter(const Scope& scope, const CtcAdapterConfig& config, const Args& args)
      : config_(config), head_(scope / "ctc", Axis::hidden(args.hidden_size), Axis(config.num_labels + 1), true) {
    if (config.adapter)
      map_ = Linear(scope / "map", Axis::hidden(args.hidden_size), Axis::hidden(args.hidden_size), true);
  }

  bool drops() const override { return config_.shrink != "none"; }
  Shorter forward(const Rows& x, const Pass& pass) const override {
    const Tensor* const transcript = pass.given("transcript");
    const bool learns = transcript && training() && config_.loss_coef > 0, shrinks = config_.shrink != "none";
    Shorter out{x, std::vector<int64_t>(size_t(x.sequences.rows()))};
    std::iota(out.row_of.begin(), out.row_of.end(), int64_t(0));
    if (learns || shrinks) {
      const Var logits = head_(x.x);
      if (learns) learn(logits, x.sequences, *transcript, pass);
      if (shrinks) out = shorter(x, logits.value());
    }
    if (map_.weight) out.rows.x = map_(out.rows.x);
    if (pass.wants_statistics() && x.sequences.rows())
      pass.add_statistic("rows_left", {double(out.rows.x.rows()) / double(x.sequences.rows())},
                         double(x.sequences.rows()));
    return out;
  }

 private:
  CtcAdapterConfig config_;
  Linear head_, map_;

  // The transcript of each sequence stands in a column of the input, from its first row on, and -1 behind it.
  void learn(const Var& logits, const Sequences& rows, const Tensor& column, const Pass& pass) const {
    const Tensor* const starts = pass.given("first rows");
    check(starts && starts->numel() == rows.count() + 1, "ctc_adapter", "knows no first rows of ", rows.count(),
          " sequences; run it in a model");
    std::vector<int32_t> labels;
    std::vector<int64_t> offsets{0};
    for (int64_t b = 0; b < rows.count(); ++b) {
      if (column.is_meta()) labels.resize(labels.size() + size_t(rows.length(b)));  // as many as rows at most
      for (int64_t r = column.is_meta() ? 0 : starts->data<int32_t>()[b],
                   end = column.is_meta() ? 0 : starts->data<int32_t>()[b + 1];
           r < end && column.data<int32_t>()[r] >= 0; ++r) {
        const int32_t label = column.data<int32_t>()[r];
        check(label < config_.num_labels, "ctc_adapter", "label ", label, " of a transcript is not below num_labels ",
              config_.num_labels);
        labels.push_back(label);
      }
      offsets.push_back(int64_t(labels.size()));
    }
    if (labels.empty()) return;
    const Shape shape{int64_t(labels.size())};
    pass.add_loss("ctc", ctc_loss(logits, rows,
                                  column.is_meta() ? empty(shape, DType::i32, Device::meta) : tensor_of(shape, labels),
                                  Sequences(offsets, {}, logits.device()), config_.loss_coef / double(labels.size()),
                                  config_.zero_infinity));
  }

  // A row that the blank dominates, by its logits.
  bool blank(const Tensor& logits, int64_t row, int64_t likeliest) const {
    const int64_t C = config_.num_labels + 1;
    if (config_.blank_threshold == 0) return likeliest == C - 1;
    double sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += std::exp(value_at(logits, row * C + c) - value_at(logits, row * C + C - 1));
    return 1 / sum >= config_.blank_threshold;
  }
  // A plan counts all rows. A sequence of blanks alone keeps the first.
  Shorter shorter(const Rows& x, const Tensor& logits) const {
    const int64_t C = config_.num_labels + 1;
    const bool drops = config_.shrink != "merge", merges = config_.shrink != "drop";
    std::vector<int64_t> offsets{0}, row_of;
    std::vector<std::vector<int64_t>> groups;
    for (int64_t b = 0; b < x.sequences.count(); ++b) {
      int64_t before = -1;  // the label of the row before, if it stays
      for (int64_t row = x.sequences.offset(b); row < x.sequences.offset(b + 1); ++row) {
        int64_t best = 0;
        for (int64_t c = 1; c < C && !logits.is_meta(); ++c)
          if (value_at(logits, row * C + c) > value_at(logits, row * C + best)) best = c;
        const bool dropped = drops && !logits.is_meta() && blank(logits, row, best);
        if (dropped) {
          row_of.push_back(-1), before = -1;
          continue;
        }
        if (!merges || best != before || logits.is_meta()) groups.emplace_back();
        groups.back().push_back(row);
        row_of.push_back(int64_t(groups.size()) - 1), before = best;
      }
      if (x.sequences.length(b) && int64_t(groups.size()) == offsets.back()) {
        groups.push_back({x.sequences.offset(b)});
        row_of[size_t(x.sequences.offset(b))] = offsets.back();
      }
      offsets.push_back(int64_t(groups.size()));
    }
    std::vector<int64_t> rows, bounds{0};
    for (const auto& group : groups) {
      rows.insert(rows.end(), group.begin(), group.end());
      bounds.push_back(int64_t(rows.size()));
    }
    const Device device = x.x.device();
    Var kept = int64_t(rows.size()) == x.sequences.rows() ? x.x : pick_rows(x.x, rows);
    if (rows.size() != groups.size()) kept = pool(kept, Sequences(bounds, {}, device), "mean");
    if (int64_t(groups.size()) == x.sequences.rows()) return {{kept, x.sequences}, row_of};
    return {{kept, Sequences(offsets, {}, device)}, row_of};
  }
};

}  // namespace

// spec: app.st_decoupled | compressor | CTC on speech rows, a linear adapter, fewer rows | TB 6.5.3, Fig 6.18b
void register_compressor_ctc_adapter(Registry& registry) {
  registry.add<Compressor, CtcAdapter, CtcAdapterConfig>(
      "ctc_adapter",
      {.spec = "app.st_decoupled",
       .summary = "an adapter between a speech encoder and a text encoder: CTC head, linear map, fewer rows",
       .source = "TB 6.5.3, Fig 6.18b",
       .causal = false,
       .samples = {"{shrink: drop_merge}", "{shrink: merge, adapter: false}"}});
}

}  // namespace lithe
