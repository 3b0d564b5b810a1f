// The language-modelling head: logits over the vocabulary, from the embedding's own table when tied
// (W_o = E^T) or from a matrix of its own [TB 6.1.1, Eq 6.10]; with a bias (Phi, BART), times a factor (T5), or
// capped, c tanh(logits / c) (Gemma 2).
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct Config {
  bool bias = false;
  double logit_softcapping = 0;
  std::string row_scale = "one";
  void fields(Fields& f) {
    f("bias", bias, "a learned number for each vocabulary entry is added to its logit");
    f("row_scale", row_scale,
      "factor on the rows before the map: one, or rsqrt_hidden, 1 / sqrt(hidden_size), as T5 has",
      one_of({"one", "rsqrt_hidden"}));
    f("logit_softcapping", logit_softcapping, "logits are c tanh(logits / c) of this c; 0: as they are", at_least(0));
  }
};

class Lm final : public Head {
 public:
  Lm(const Scope& scope, const Config& config, const Args& args)
      : tied_(args.tied != nullptr),
        weight_(tied_ ? args.tied : scope.parameter("weight", {args.hidden_size, args.vocab_size}, InitRole::matrix)),
        bias_(config.bias ? scope.parameter("bias", {args.vocab_size}, InitRole::zeros) : nullptr),
        cap_(config.logit_softcapping),
        factor_(config.row_scale == "one" ? 1 : 1 / std::sqrt(double(args.hidden_size))) {}
  LabelCount count(const Sequences& sequences) const override {
    return {sequences.rows(), weight_->master.dim(tied_ ? 0 : 1)};
  }
  Var logits(const Var& x, const Sequences&) const override {
    const Var plain = linear(scaled(x), weight_->var(), var_or_none(bias_), tied_);
    return cap_ == 0 ? plain : scale(activate(kernels::Activation::tanh, scale(plain, 1 / cap_)), cap_);
  }
  Var loss(const Var& x, const LossArgs& args) const override {
    if (cap_ != 0)
      return cross_entropy(logits(x, args.sequences), args.labels, args.smoothing, args.scale, args.sums, args.row_nll);
    return linear_cross_entropy(scaled(x), weight_->var(), tied_, args.labels, args.smoothing, args.scale, args.sums,
                                args.row_nll, var_or_none(bias_));
  }

 private:
  bool tied_;
  Parameter *weight_, *bias_;
  double cap_, factor_;
  Var scaled(const Var& x) const { return factor_ == 1 ? x : scale(x, factor_); }
};

}  // namespace

void register_head_lm(Registry& registry) {
  registry.add<Head, Lm, Config>("lm",
                                 {.summary = "logits over the vocabulary, tied to the embedding or not",
                                  .source = "TB 6.1.1, Eq 6.10",
                                  .samples = {"{bias: true}", "{logit_softcapping: 2}", "{row_scale: rsqrt_hidden}"}});
}

}  // namespace lithe
