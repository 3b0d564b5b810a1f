// Multi-head-embedding attention, MHE-ADD: head i is seed + e_i [TH 3.3.2-3.3.4].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/multi_head_embedding.h"

namespace lithe {
namespace {

class MheAdd final : public MultiHeadEmbedding {
 public:
  MheAdd(const Scope& scope, const MultiHeadEmbeddingConfig& config, const Args& args)
      : MultiHeadEmbedding(scope, config, args, Join::add) {}
};

}  // namespace

void register_heads_mhe_add(Registry& registry) {
  registry.add<Heads, MheAdd, MultiHeadEmbeddingConfig>("mhe_add", {.spec = "mixer.mhe_add",
                                                                    .summary = "one seed head, head i is seed + e_i",
                                                                    .source = "TH 3.3.2-3.3.4, Eq 3.4-3.6; MP 3"});
}

}  // namespace lithe
