// Gated feed-forward layer: (GELU(x W_g) * x W_u) W_d [Shazeer 2020; Gemma, ModernBERT].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct GegluConfig {
  int64_t intermediate_size = 0;
  bool bias = false;
  std::string approximate = "none";
  void fields(Fields& f) {
    f("intermediate_size", intermediate_size,
      "hidden width d_ff; 0: floor(8 hidden_size / 3), the parameters of a 4x relu layer",
      at_least(0).of({Dimension::ffn}));
    f("bias", bias, "biases on all three maps");
    f("approximate", approximate, "GELU: none (exact, with the error function) or tanh (approximation)",
      one_of({"none", "tanh"}));
  }
};

class GeGlu final : public Ffn {
 public:
  GeGlu(const Scope& scope, const GegluConfig& config, const Args& args)
      : GeGlu(scope, Axis::hidden(args.hidden_size),
              Axis::ffn(config.intermediate_size ? config.intermediate_size : 8 * args.hidden_size / 3), config) {}
  Var forward(const SubLayerInput& in) const override {
    const std::vector<Var> hidden = apply_each({&gate_, &up_}, in.x);
    const Var y = gated_linear(kind_, hidden[0], hidden[1], down_.weight->var());
    return down_.bias ? row_affine(y, {}, down_.bias->var()) : y;
  }

 private:
  GeGlu(const Scope& scope, const Axis& d, const Axis& d_ff, const GegluConfig& config)
      : gate_(scope / "gate", d, d_ff, config.bias),
        up_(scope / "up", d, d_ff, config.bias),
        down_(scope / "down", d_ff, d, config.bias, InitRole::residual_output),
        kind_(config.approximate == "tanh" ? kernels::Activation::gelu_tanh : kernels::Activation::gelu) {}
  Linear gate_, up_, down_;
  kernels::Activation kind_;
};

}  // namespace

void register_ffn_geglu(Registry& registry) {
  registry.add<Ffn, GeGlu, GegluConfig>("geglu",
                                        {.summary = "gated GELU: product of GELU(x W_g) and x W_u, then a third map",
                                         .source = "Shazeer 2020",
                                         .samples = {"{approximate: tanh, bias: true}"}});
}

}  // namespace lithe
