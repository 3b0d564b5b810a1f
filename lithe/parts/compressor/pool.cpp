// Neighbouring rows become one: the mean or the largest of each `size` of a sequence, the last group being smaller
// where they do not divide [TB 6.4.8].
#include "lithe/ops/pool.h"
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

struct PoolConfig {
  int64_t size = 2;
  std::string kind = "mean";
  void fields(Fields& f) {
    f("size", size, "rows that become one", between(1, 1 << 16));
    f("kind", kind, "what a group becomes: its mean, or its largest number in each channel", one_of({"mean", "max"}));
  }
};

class Pool final : public Compressor {
 public:
  Pool(const Scope&, const PoolConfig& config, const Args&) : config_(config) {}
  Sequences lengths(const Sequences& sequences) const override {
    std::vector<int64_t> offsets{0};
    for (int64_t b = 0; b < sequences.count(); ++b)
      offsets.push_back(offsets.back() + (sequences.length(b) + config_.size - 1) / config_.size);
    return Sequences(offsets, {}, sequences.positions().device());
  }
  Rows forward(const Rows& x, const Pass&) const override {
    std::vector<int64_t> groups{0};
    for (int64_t b = 0; b < x.sequences.count(); ++b)
      for (int64_t row = x.sequences.offset(b); row < x.sequences.offset(b + 1); row += config_.size)
        groups.push_back(std::min(row + config_.size, x.sequences.offset(b + 1)));
    return {pool(x.x, Sequences(groups, {}, x.x.device()), config_.kind), lengths(x.sequences)};
  }

 private:
  PoolConfig config_;
};

}  // namespace

void register_compressor_pool(Registry& registry) {
  registry.add<Compressor, Pool, PoolConfig>("pool", {.summary = "each few neighbouring rows become one, mean or max",
                                                      .source = "TB 6.4.8",
                                                      .causal = false,
                                                      .samples = {"{kind: max, size: 3}"}});
}

}  // namespace lithe
