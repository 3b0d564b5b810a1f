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
  Shorter forward(const Rows& x, const Pass&) const override {
    std::vector<int64_t> groups{0}, offsets{0}, row_of;
    for (int64_t b = 0; b < x.sequences.count(); ++b) {
      for (int64_t row = x.sequences.offset(b); row < x.sequences.offset(b + 1); ++row) {
        if ((row - x.sequences.offset(b)) % config_.size == 0) groups.push_back(row);
        groups.back() = row + 1;
        row_of.push_back(int64_t(groups.size()) - 2);
      }
      offsets.push_back(int64_t(groups.size()) - 1);
    }
    const Device device = x.x.device();
    return {{pool(x.x, Sequences(groups, {}, device), config_.kind), Sequences(offsets, {}, device)}, row_of};
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
