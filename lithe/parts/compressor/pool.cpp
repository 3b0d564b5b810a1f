// Neighbouring rows become one: each `size` of a text, the last group being smaller where they do not divide, or the
// spans that a column names [TB 6.2.4, 6.4.8]. One row is their mean, their largest numbers, a weighted mean, or what a
// small model of the group makes of them.
#include "lithe/ops/pool.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/recurrent.h"
#include "lithe/parts/common/projected_heads.h"
#include "lithe/parts/common/row_groups.h"

namespace lithe {
namespace {

struct PoolConfig {
  int64_t size = 2, num_attention_heads = 1;
  std::string kind = "mean", spans;
  void fields(Fields& f) {
    f("size", size, "rows in a group", between(1, 1 << 16));
    f("spans", spans,
      "column of the input, instead of `size`: neighbours with the same number are one group; a row with a negative "
      "number stays single; empty: not used");
    f("kind", kind,
      "how a group becomes one row: mean; max of each channel; attention: mean with learned weights; rnn_last: last "
      "row of a recurrent layer; selfattn_cls: result of a learned [CLS] row that attends to the group",
      one_of({"mean", "max", "attention", "rnn_last", "selfattn_cls"}));
    f("num_attention_heads", num_attention_heads, "selfattn_cls: attention heads", at_least(1));
  }
};

// spec: ms.phrase_embed | compressor | a phrase's vector from its words: mean, max, recurrence, attention | TB 6.2.4
class Pool final : public Compressor {
 public:
  Pool(const Scope& scope, const PoolConfig& config, const Args& args) : config_(config) {
    const int64_t width = args.hidden_size;
    const Axis d = Axis::hidden(width);
    if (config.kind == "attention") query_ = scope.parameter("query", {1, d}, InitRole::zeros);
    if (config.kind == "rnn_last") {
      from_row_ = Linear(scope / "input", d, d, true, InitRole::matrix);
      from_before_ = (scope / "before").parameter("weight", {d, d}, InitRole::matrix);
    }
    if (config.kind != "selfattn_cls") return;
    const HeadSizes sizes{.num_attention_heads = config.num_attention_heads};
    heads_ = std::make_unique<ProjectedHeads>(scope / "heads", sizes.args("pool", width), config.num_attention_heads);
    output_ = Linear(scope / "output", heads_->context(), d, false);
    cls_ = (scope / "cls").parameter("weight", {1, d}, InitRole::embedding);
    scope.couples({Dimension::hidden});  // logits are divided by the root of a head's width
  }

  Shorter forward(const Rows& x, const Pass& pass) const override {
    const RowGroups at = groups_of(x.sequences, pass);
    return {{summary(x.x, at.groups), at.sequences}, at.row_of};
  }
  std::vector<std::string> reads_columns() const override {
    return config_.spans.empty() ? std::vector<std::string>() : std::vector{config_.spans};
  }

 private:
  PoolConfig config_;
  Parameter *query_ = nullptr, *from_before_ = nullptr, *cls_ = nullptr;
  Linear from_row_, output_;
  std::unique_ptr<ProjectedHeads> heads_;

  RowGroups groups_of(const Sequences& text, const Pass& pass) const {
    if (config_.spans.empty()) return RowGroups::blocks(text, config_.size);
    return RowGroups::spans(text, pass, config_.spans, "pool");
  }
  Var summary(const Var& x, const Sequences& groups) const {
    if (config_.kind == "attention")
      return weighted(repeated(cast(query_->var(), x.dtype()), groups.count()), x, x, groups, 1, 1);
    if (config_.kind == "rnn_last")
      return pool(recurrent(kernels::RecurrentCell::elman, from_row_(x), from_before_->var(), {}, groups), groups,
                  "last");
    if (config_.kind == "selfattn_cls") return by_attention(x, groups);
    return pool(x, groups, config_.kind);
  }
  // What one query a group takes from its keys.
  static Var weighted(const Var& q, const Var& k, const Var& v, const Sequences& groups, int64_t heads, double scale) {
    std::vector<int64_t> each(size_t(groups.count()) + 1);
    for (size_t i = 0; i < each.size(); ++i) each[i] = int64_t(i);
    return attend(q, k, v, Sequences(each, {}, q.device()), groups,
                  {.heads = heads, .kv_heads = heads, .scale = scale});
  }
  static Var repeated(const Var& row, int64_t times) {
    return pick_rows(row, std::vector<int64_t>(static_cast<size_t>(times), 0));
  }
  // The learned row stands before each group and is among its keys.
  Var by_attention(const Var& x, const Sequences& groups) const {
    std::vector<int64_t> order, offsets{0};
    for (int64_t g = 0; g < groups.count(); ++g) {
      order.push_back(x.rows());
      for (int64_t row = groups.offset(g); row < groups.offset(g + 1); ++row) order.push_back(row);
      offsets.push_back(int64_t(order.size()));
    }
    const Var cls = cast(cls_->var(), x.dtype());
    const auto same = [](const Var& rows) { return rows; };
    const Heads::KeyValue words = heads_->keep({x, x}, same), first = heads_->keep({cls, cls}, same);
    const Var q = repeated(heads_->queries({cls, cls}, same), groups.count());
    return output_(weighted(q, pick_rows(concatenate_rows({words.k, first.k}), order),
                            pick_rows(concatenate_rows({words.v, first.v}), order), Sequences(offsets, {}, x.device()),
                            heads_->query_heads(), 0));
  }
};

}  // namespace

void register_compressor_pool(Registry& registry) {
  registry.add<Compressor, Pool, PoolConfig>(
      "pool", {.spec = "ms.downsample",
               .summary = "each group of neighbouring rows becomes one: groups of a fixed size, or spans from a column",
               .source = "TB 6.2.4, 6.4.8",
               .causal = false,
               .samples = {"{kind: max, size: 3}", "{kind: attention, size: 3}", "{kind: rnn_last, size: 3}",
                           "{kind: selfattn_cls, size: 3}"}});
}

}  // namespace lithe
