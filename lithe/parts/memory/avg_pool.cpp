// All past tokens as one pair, the mean of their keys and of their values, beside the token's own [TB Eq 6.125-6.126].
#include "lithe/parts/common/summary.h"

namespace lithe {
namespace {

struct AvgPoolConfig {
  bool include_self = true;
  void fields(Fields& f) {
    f("include_self", include_self,
      "a token also sees its own key and value; false: its result is the mean of the values before it");
  }
};

class AvgPool final : public SummaryMemory {
 public:
  AvgPool(const Scope& scope, const AvgPoolConfig& config, const Args& args)
      : SummaryMemory(scope, {}, args, config.include_self) {}
};

}  // namespace

void register_memory_avg_pool(Registry& registry) {
  registry.add<Memory, AvgPool, AvgPoolConfig>("avg_pool", {.spec = "mem.avg_pool",
                                                            .summary = "the mean of all past keys and values, one pair",
                                                            .source = "TB Eq 6.125-6.126",
                                                            .bidirectional = false});
}

}  // namespace lithe
