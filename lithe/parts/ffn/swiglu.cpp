// Gated feed-forward layer: (SiLU(x W_g) * x W_u) W_d [TB 6.1.6 variants; Shazeer 2020].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct SwigluConfig {
  int64_t intermediate_size = 0;
  bool bias = false;
  void fields(Fields& f) {
    f("intermediate_size", intermediate_size,
      "hidden width d_ff; 0: floor(8 hidden_size / 3), the parameters of a 4x relu layer",
      at_least(0).of({Dimension::ffn}));
    f("bias", bias, "biases on all three maps");
  }
};

class SwiGlu final : public Ffn {
 public:
  SwiGlu(const Scope& scope, const SwigluConfig& config, const Args& args)
      : SwiGlu(scope, Axis::hidden(args.hidden_size),
               Axis::ffn(config.intermediate_size ? config.intermediate_size : 8 * args.hidden_size / 3), config.bias) {
  }
  Var forward(const SubLayerInput& in) const override {
    const std::vector<Var> hidden = apply_each({&gate_, &up_}, in.x);
    const Var y = gated_linear(kernels::Activation::silu, hidden[0], hidden[1], down_.weight->var());
    return down_.bias ? row_affine(y, {}, down_.bias->var()) : y;
  }

 private:
  SwiGlu(const Scope& scope, const Axis& d, const Axis& d_ff, bool bias)
      : gate_(scope / "gate", d, d_ff, bias),
        up_(scope / "up", d, d_ff, bias),
        down_(scope / "down", d_ff, d, bias, InitRole::residual_output) {}
  Linear gate_, up_, down_;
};

}  // namespace

void register_ffn_swiglu(Registry& registry) {
  registry.add<Ffn, SwiGlu, SwigluConfig>("swiglu",
                                          {.spec = "ffn.swiglu",
                                           .summary = "gated SiLU: product of SiLU(x W_g) and x W_u, then a third map",
                                           .source = "HP 5.1; TH ch. 4; Shazeer 2020",
                                           .standard = true});
}

}  // namespace lithe
