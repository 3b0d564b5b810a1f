// The head of masked language models: norm(gelu(x W + b)), then logits over the vocabulary from the embedding's own
// table when tied, with a bias [Devlin et al. 2019].
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/norm.h"

namespace lithe {
namespace {

struct MlmHeadConfig {
  double eps = 1e-12;
  bool transform_bias = true, norm_bias = true;
  void fields(Fields& f) {
    f("eps", eps, "epsilon of the layer norm", at_least(0));
    f("transform_bias", transform_bias, "bias of the dense layer before gelu; ModernBERT has none");
    f("norm_bias", norm_bias, "bias of the layer norm; ModernBERT has none");
  }
};

class Mlm final : public Head {
 public:
  Mlm(const Scope& scope, const MlmHeadConfig& config, const Args& args)
      : transform_(scope / "transform", Axis::hidden(args.hidden_size), Axis::hidden(args.hidden_size), false),
        transform_bias_(config.transform_bias
                            ? (scope / "transform").parameter("bias", {Axis::hidden(args.hidden_size)}, InitRole::zeros)
                            : nullptr),
        norm_((scope / "norm").parameter("weight", {Axis::hidden(args.hidden_size)}, InitRole::ones)),
        norm_bias_(config.norm_bias
                       ? (scope / "norm").parameter("bias", {Axis::hidden(args.hidden_size)}, InitRole::zeros)
                       : nullptr),
        tied_(args.tied != nullptr),
        weight_(tied_ ? args.tied
                      : scope.parameter("weight", {Axis::hidden(args.hidden_size), Axis::vocabulary(args.vocab_size)},
                                        InitRole::matrix)),
        bias_(scope.parameter("bias", {Axis::vocabulary(args.vocab_size)}, InitRole::zeros)),
        eps_(config.eps) {
    scope.couples({Dimension::hidden});
  }

  LabelCount count(const Sequences& sequences) const override { return {sequences.rows(), bias_->master.dim(0)}; }
  Var logits(const Rows& rows) const override {
    return linear(transformed(rows.x), weight_->var(), bias_->var(), tied_);
  }
  Var loss(const Rows& rows, const LossArgs& a) const override {
    return linear_cross_entropy(transformed(rows.x), weight_->var(), tied_, a.labels, a.smoothing, a.scale, a.sums,
                                a.row_nll, bias_->var());
  }

 private:
  Linear transform_;
  Parameter *transform_bias_, *norm_, *norm_bias_;
  bool tied_;
  Parameter *weight_, *bias_;
  double eps_;

  Var transformed(const Var& x) const {
    const Var active = activate(kernels::Activation::gelu, transform_(x), var_or_none(transform_bias_));
    return normalise(kernels::NormKind::layer_variance, active, norm_->var(), var_or_none(norm_bias_), eps_);
  }
};

}  // namespace

void register_head_mlm(Registry& registry) {
  registry.add<Head, Mlm, MlmHeadConfig>("mlm",
                                         {.summary = "a transformed row, then logits over the vocabulary with a bias",
                                          .source = "Devlin et al. 2019",
                                          .samples = {"{transform_bias: false, norm_bias: false}"}});
}

}  // namespace lithe
