// RMS normalisation: weight * x / sqrt(mean(x^2) + eps) per row [Zhang and Sennrich 2019; TH ch. 4]; with
// unit_offset 1 + weight, as in Gemma.
#include "lithe/nn/registry.h"
#include "lithe/ops/norm.h"

namespace lithe {
namespace {

struct RmsConfig {
  double eps = 1e-5;
  bool unit_offset = false;
  void fields(Fields& f) {
    f("eps", eps, "epsilon, added in the denominator", at_least(0));
    f("unit_offset", unit_offset, "the scale is 1 + weight, and the weight is initially 0 (Gemma)");
  }
};

class Rms final : public Norm {
 public:
  Rms(const Scope& scope, const RmsConfig& config, const Args& args)
      : weight_(scope.parameter("weight", {Axis::hidden(args.hidden_size)},
                                config.unit_offset ? InitRole::zeros : InitRole::ones)),
        offset_(config.unit_offset),
        eps_(config.eps) {
    scope.couples({Dimension::hidden});
  }
  Var forward(const Var& x) const override {
    return normalise(kernels::NormKind::rms, x, offset_ ? plus_one(weight_->var()) : weight_->var(), {}, eps_);
  }
  Var forward_sum(const Var& a, const Var& b) const override {
    return normalise_sum(kernels::NormKind::rms, a, b, offset_ ? plus_one(weight_->var()) : weight_->var(), {}, eps_);
  }
  bool fuses_sum() const override { return true; }

 private:
  Parameter* weight_;
  bool offset_;
  double eps_;
};

}  // namespace

void register_norm_rms(Registry& registry) {
  registry.add<Norm, Rms, RmsConfig>("rms", {.spec = "norm.rms",
                                             .summary = "RMS norm: divide by the root mean square",
                                             .source = "TB 6.1.5 variant; TH ch. 4",
                                             .standard = true,
                                             .samples = {"{unit_offset: true}"}});
}

}  // namespace lithe
