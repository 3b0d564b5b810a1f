// All past tokens as one pair that each token updates: k' = KMem(k', k), v' = VMem(v', v) [TB Eq 6.127-6.128].
#include "lithe/parts/common/summary.h"

namespace lithe {
namespace {

struct RecursiveConfig : SummaryConfig {
  bool include_self = true;
  RecursiveConfig() { update = "ema"; }
  void fields(Fields& f) {
    SummaryConfig::fields(f);
    f("include_self", include_self, "a token also sees its own key and value");
  }
};

class Recursive final : public SummaryMemory {
 public:
  Recursive(const Scope& scope, const RecursiveConfig& config, const Args& args)
      : SummaryMemory(scope, config, args, config.include_self) {}
};

}  // namespace

void register_memory_recursive(Registry& registry) {
  registry.add<Memory, Recursive, RecursiveConfig>(
      "recursive", {.spec = "mem.recursive",
                    .summary = "one pair that every token updates: a mean that decays, or a recurrent cell",
                    .source = "TB Eq 6.127-6.128",
                    .bidirectional = false,
                    .samples = {"{update: mean}", "{update: rnn}", "{update: gru}", "{update: lstm}"}});
}

}  // namespace lithe
