// Multi-query attention's heads: all query heads share one key and one value head [TH 3.4.1; TB Eq 6.152].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/projected_heads.h"

namespace lithe {
namespace {

class Mqa final : public ProjectedHeads {
 public:
  Mqa(const Scope& scope, const QueryKeyNorm& config, const Args& args) : ProjectedHeads(scope, args, 1, config) {}
};

}  // namespace

void register_heads_mqa(Registry& registry) {
  registry.add<Heads, Mqa, QueryKeyNorm>("mqa", {.spec = "mixer.mqa",
                                                 .summary = "one key and value shared by all query heads",
                                                 .source = "TH 3.4.1; TB Eq 6.152; Shazeer 2019"});
}

}  // namespace lithe
