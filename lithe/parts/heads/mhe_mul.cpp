// Multi-head-embedding attention, MHE-MUL: head i is seed * (1 + e_i) [TH 3.3.2-3.3.4].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/multi_head_embedding.h"

namespace lithe {
namespace {

class MheMul final : public MultiHeadEmbedding {
 public:
  MheMul(const Scope& scope, const MultiHeadEmbeddingConfig& config, const Args& args)
      : MultiHeadEmbedding(scope, config, args, Join::mul) {}
};

}  // namespace

void register_heads_mhe_mul(Registry& registry) {
  registry.add<Heads, MheMul, MultiHeadEmbeddingConfig>("mhe_mul",
                                                        {.spec = "mixer.mhe_mul",
                                                         .summary = "one seed head, head i is seed * (1 + e_i)",
                                                         .source = "TH 3.3.2-3.3.4, Eq 3.4-3.6; MP 3",
                                                         .samples = {"{rope_order: before}"}});
}

}  // namespace lithe
