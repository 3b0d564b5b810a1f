// Position-wise feed-forward layer: SiLU(x W_h + b_h) W_f + b_f, SiLU(x) = x / (1 + e^-x) [Elfwing et al. 2018], as
// Marian's models for translation have it (swish).
#include "lithe/nn/registry.h"
#include "lithe/parts/common/feed_forward.h"

namespace lithe {
namespace {

class Silu final : public FeedForward {
 public:
  Silu(const Scope& scope, const FeedForwardConfig& config, const Args& args)
      : FeedForward(scope, config, args, kernels::Activation::silu) {}
};

}  // namespace

void register_ffn_silu(Registry& registry) {
  registry.add<Ffn, Silu, FeedForwardConfig>("silu", {.summary = "two linear maps with silu (swish) between",
                                                      .source = "Elfwing et al. 2018; Junczys-Dowmunt et al. 2018",
                                                      .samples = {"{bias: false}"}});
}

}  // namespace lithe
