// One vector a text: the pooled rows of every encoder side by side [TB Eq 6.59].
#include "lithe/ops/pool.h"
#include "lithe/nn/combiner.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct PoolCombinerConfig {
  std::string kind = "mean";
  void fields(Fields& f) {
    f("kind", kind, "vector of a text: the mean of its rows, or the maximum of each channel", one_of({"mean", "max"}));
  }
};

class PoolCombiner final : public Combiner {
 public:
  PoolCombiner(const Scope& scope, const PoolCombinerConfig& config, const Args& args)
      : kind_(config.kind), width_(args.encoders * args.hidden_size) {
    scope.couples({Dimension::hidden});  // the head reads the channels of all encoders side by side
  }
  int64_t width() const override { return width_; }
  bool row_a_token(bool) const override { return false; }
  Rows forward(const std::vector<Rows>& rows, const Pass&) const override {
    const int64_t B = rows[0].sequences.count(), n = int64_t(rows.size());
    std::vector<Var> pooled;
    for (const Rows& of : rows) pooled.push_back(pool(of.x, of.sequences, kind_));
    std::vector<int64_t> side_by_side, offsets{0};
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t i = 0; i < n; ++i) side_by_side.push_back(i * B + b);
      offsets.push_back(b + 1);
    }
    return {reshape(pick_rows(concatenate_rows(pooled), side_by_side), {B, width_}),
            Sequences(offsets, {}, rows[0].x.device())};
  }

 private:
  std::string kind_;
  int64_t width_;
};

}  // namespace

void register_combiner_pool(Registry& registry) {
  registry.add<Combiner, PoolCombiner, PoolCombinerConfig>(
      "pool", {.spec = "syn.combine",
               .summary = "one vector a text: the means (or maxima) of all encoders side by side",
               .source = "TB Eq 6.59",
               .causal = false,
               .samples = {"{kind: max}"}});
}

}  // namespace lithe
