// Attention whose queries and keys come from fixed rows of noise [TH Eq 4.9-4.10].
#include "lithe/parts/common/reference_attention.h"

namespace lithe {
namespace {

struct RndEmbQkConfig : ReferenceAttentionConfig {
  double std = 0.02;
  void fields(Fields& f) {
    ReferenceAttentionConfig::fields(f);
    f("std", std, "standard deviation sigma of the random rows", at_least(0));
  }
};

class RndEmbQk final : public ReferenceAttention {
 public:
  RndEmbQk(const Scope& scope, const RndEmbQkConfig& config, const Args& args)
      : ReferenceAttention(scope, config, args, {.ids = {}, .std = config.std, .seed = config.seed}) {}
};

}  // namespace

void register_mixer_rnd_emb_qk(Registry& registry) {
  registry.add<Mixer, RndEmbQk, RndEmbQkConfig>(
      "rnd_emb_qk", {.spec = "decon.rndembqk",
                     .summary = "attention maps computed from random rows, which run through the layers beside the "
                                "text and are the same for all texts",
                     .source = "TH Eq 4.9-4.10"});
}

}  // namespace lithe
