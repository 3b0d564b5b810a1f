// Layer normalisation: weight * (x - mean) / (sigma + eps) + bias per row [TB Eq 6.32-6.34, E06]; without weight and
// bias as in OLMo.
#include "lithe/nn/registry.h"
#include "lithe/ops/norm.h"

namespace lithe {
namespace {

struct LayerNormConfig {
  double eps = 1e-5;
  std::string eps_mode = "sigma";
  bool weight = true, bias = true;
  void fields(Fields& f) {
    f("eps", eps, "epsilon, added in the denominator", at_least(0));
    f("eps_mode", eps_mode,
      "sigma: x / (sigma + eps), as in the textbook; variance: x / sqrt(sigma^2 + eps), as in most libraries",
      one_of({"sigma", "variance"}));
    f("weight", weight, "learned scale");
    f("bias", bias, "learned bias");
  }
};

class Layer final : public Norm {
 public:
  Layer(const Scope& scope, const LayerNormConfig& config, const Args& args)
      : weight_(config.weight ? scope.parameter("weight", {Axis::hidden(args.hidden_size)}, InitRole::ones) : nullptr),
        bias_(config.bias ? scope.parameter("bias", {Axis::hidden(args.hidden_size)}, InitRole::zeros) : nullptr),
        kind_(config.eps_mode == "sigma" ? kernels::NormKind::layer_sigma : kernels::NormKind::layer_variance),
        eps_(config.eps) {
    scope.couples({Dimension::hidden});
    if (weight_) return;
    const MemoryScope memory(MemoryClass::weights);
    ones_ = empty({args.hidden_size}, wide_of(scope.context().dtype), scope.context().device);
    for (int64_t i = 0; !ones_.is_meta() && i < ones_.numel(); ++i) set_value(ones_, i, 1);
  }
  Var forward(const Var& x) const override {
    return normalise(kind_, x, weight_ ? weight_->var() : Var(ones_), var_or_none(bias_), eps_);
  }
  Var forward_sum(const Var& a, const Var& b) const override {
    return normalise_sum(kind_, a, b, weight_ ? weight_->var() : Var(ones_), var_or_none(bias_), eps_);
  }
  bool fuses_sum() const override { return true; }

 private:
  Parameter *weight_, *bias_;
  Tensor ones_;  // in place of a weight
  kernels::NormKind kind_;
  double eps_;
};

}  // namespace

void register_norm_layer(Registry& registry) {
  registry.add<Norm, Layer, LayerNormConfig>(
      "layer", {.spec = "norm.layer",
                .summary = "layer norm: subtract the mean, divide by the standard deviation",
                .source = "TB Eq 6.32-6.34",
                .samples = {"{weight: false, bias: false, eps_mode: variance}"}});
}

}  // namespace lithe
