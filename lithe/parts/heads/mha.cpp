// Multi-head attention's heads: every head has its own query, key and value [TB Eq 6.21-6.31].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/projected_heads.h"

namespace lithe {
namespace {

class Mha final : public ProjectedHeads {
 public:
  Mha(const Scope& scope, const QueryKeyNorm& config, const Args& args)
      : ProjectedHeads(scope, args, args.num_attention_heads, config) {}
};

}  // namespace

void register_heads_mha(Registry& registry) {
  registry.add<Heads, Mha, QueryKeyNorm>("mha", {.spec = "mixer.mha",
                                                 .summary = "own query, key and value per head",
                                                 .source = "TB Eq 6.21-6.31; TH 3.1-3.3",
                                                 .samples = {"{qk_norm: head}", "{qk_norm: row}", "{clip_qkv: 0.5}"}});
}

}  // namespace lithe
