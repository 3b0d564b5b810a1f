// Position-wise feed-forward layer: GELU(x W_h + b_h) W_f + b_f, GELU(x) = x Phi(x) with the error function [TB 6.1.6;
// Hendrycks and Gimpel 2016], or its approximation by tanh (GPT-2).
#include "lithe/nn/registry.h"
#include "lithe/parts/common/feed_forward.h"

namespace lithe {
namespace {

struct GeluConfig : FeedForwardConfig {
  std::string approximate = "none";
  void fields(Fields& f) {
    FeedForwardConfig::fields(f);
    f("approximate", approximate,
      "GELU: none (exact, with the error function); tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
      one_of({"none", "tanh"}));
  }
};

class Gelu final : public FeedForward {
 public:
  Gelu(const Scope& scope, const GeluConfig& config, const Args& args)
      : FeedForward(scope, config, args,
                    config.approximate == "tanh" ? kernels::Activation::gelu_tanh : kernels::Activation::gelu) {}
};

}  // namespace

void register_ffn_gelu(Registry& registry) {
  registry.add<Ffn, Gelu, GeluConfig>("gelu", {.spec = "ffn.gelu",
                                               .summary = "two linear maps with gelu between",
                                               .source = "TB 6.1.6; Hendrycks and Gimpel 2016",
                                               .samples = {"{approximate: tanh}"}});
}

}  // namespace lithe
