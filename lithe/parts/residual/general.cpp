// Weighted residual around the norm: LNorm(F(x) + beta x) + gamma x [TB Eq 6.81; DeepNorm: Wang et al. 2022].
#include <cmath>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct GeneralConfig {
  std::string preset, learn = "fixed";
  double beta = 1, gamma = 0;
  void fields(Fields& f) {
    f("preset", preset,
      "deepnorm: beta (2 layers)^(1/4), gamma 0; together with model.init: {type: xavier_normal, depth: deepnorm}",
      one_of({"", "deepnorm"}));
    f("beta", beta, "factor on x inside the norm; 1 with gamma 0 is residual post", between(-1e6, 1e6));
    f("gamma", gamma, "factor on x outside the norm; 1 with beta 0 is residual res_post", between(-1e6, 1e6));
    f("learn", learn,
      "fixed: beta and gamma stay; scalar, per_channel: both are learned, from these values on; gate: both are "
      "sigmoid(x W + b) instead",
      one_of({"fixed", "scalar", "per_channel", "gate"}));
  }
};

class General final : public Residual {
 public:
  General(const Scope& scope, const GeneralConfig& config, const Args& args)
      : beta_{config.preset.empty() ? config.beta : std::pow(2.0 * double(scope.context().layers), 0.25)},
        gamma_{config.gamma},
        norm_(args.norm),
        dropout_(args.dropout) {
    check_usage(config.preset.empty() || (config.beta == 1 && config.gamma == 0 && config.learn == "fixed"), "general",
                "preset ", config.preset, " sets beta, gamma and learn; leave them out, or the preset");
    if (!norm_) return;  // only asked for its norm
    for (Factor* factor : {&beta_, &gamma_}) {
      const Scope at = scope / (factor == &beta_ ? "beta" : "gamma");
      if (config.learn == "gate")
        factor->gate = Linear(at, Axis::hidden(args.hidden_size), Axis::hidden(args.hidden_size), true);
      else if (config.learn != "fixed")
        factor->learned =
            learned(at, config.learn == "scalar" ? Axis(1) : Axis::hidden(args.hidden_size), factor->start);
    }
  }
  Var forward(const Var& x, const SubLayerFunction& f) const override {
    const Var y = norm_->forward(beta_.add_to((*dropout_)(f(x, 0)), x));
    return gamma_.add_to(y, x);
  }
  bool final_norm() const override { return false; }

 private:
  struct Factor {
    double start;
    Parameter* learned = nullptr;  // [1] or [D]
    Linear gate = {};

    // y + factor x
    Var add_to(const Var& y, const Var& x) const {
      if (learned) return add(y, row_affine(x, learned->var(), {}));
      if (!gate.weight) return start == 0 ? y : add(y, x, 1, start);
      // sigmoid(a) = (1 + tanh(a/2)) / 2
      const Var half = activate(kernels::Activation::tanh, scale(gate(x), 0.5));
      return add(add(y, x, 1, 0.5), mul(half, x), 1, 0.5);
    }
  };
  Factor beta_, gamma_;
  const Norm* norm_;
  const Dropout* dropout_;

  static Parameter* learned(const Scope& scope, const Axis& count, double start) {
    Parameter* p = scope.parameter("weight", {count}, InitRole::ones);
    const Tensor value = p->master.value();
    if (!value.is_meta()) kernels::add({.a = value, .out = value, .alpha = start});
    return p;
  }
};

}  // namespace

void register_residual_general(Registry& registry) {
  registry.add<Residual, General, GeneralConfig>(
      "general", {.spec = "block.general_norm",
                  .summary = "norm(F(x) + beta x) + gamma x; DeepNorm as a preset",
                  .source = "TB Eq 6.81; Wang et al. 2022",
                  .samples = {"{preset: deepnorm}", "{beta: 0.5, gamma: 0.7}", "{gamma: 0.3, learn: scalar}",
                              "{gamma: 0.3, learn: per_channel}", "{learn: gate}"}});
}

}  // namespace lithe
