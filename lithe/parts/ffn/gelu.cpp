// Position-wise feed-forward layer: GELU(x W_h + b_h) W_f + b_f, GELU(x) = x Phi(x) with the error function [TB 6.1.6;
// Hendrycks and Gimpel 2016].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/feed_forward.h"

namespace lithe {
namespace {

class Gelu final : public FeedForward {
 public:
  Gelu(const Scope& scope, const FeedForwardConfig& config, const Args& args)
      : FeedForward(scope, config, args, kernels::Activation::gelu) {}
};

}  // namespace

void register_ffn_gelu(Registry& registry) {
  registry.add<Ffn, Gelu, FeedForwardConfig>("gelu", {.spec = "ffn.gelu",
                                                      .summary = "two linear maps with gelu between",
                                                      .source = "TB 6.1.6; Hendrycks and Gimpel 2016"});
}

}  // namespace lithe
