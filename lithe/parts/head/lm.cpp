// The language-modelling head: logits over the vocabulary, from the embedding's own table when tied
// (W_o = E^T) or from a matrix of its own [TB 6.1.1, Eq 6.10]; with a bias (Phi, BART), times a factor (T5), or
// capped, c tanh(logits / c) (Gemma 2). With early_stop it also says of each row whether the text ends after it:
// Softmax(x W + b) of two classes [TB Eq 6.192-6.193].
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct LmConfig {
  bool bias = false;
  double logit_softcapping = 0;
  bool early_stop = false;
  int64_t stop_token = -1;
  double stop_loss_coef = 1;
  std::string row_scale = "one";
  void fields(Fields& f) {
    f("bias", bias, "add a learned bias to the logit of each vocabulary entry");
    f("early_stop", early_stop,
      "learn to predict the end of a text, for generate.early_stop: whether the next token is stop_token");
    f("stop_token", stop_token, "token id of the end for early_stop; -1: the tokenizer's end of text", at_least(-1));
    f("stop_loss_coef", stop_loss_coef, "weight of the early_stop loss", at_least(0));
    f("row_scale", row_scale,
      "factor on the rows before the output map: one (1), or rsqrt_hidden: 1 / sqrt(hidden_size), as in T5",
      one_of({"one", "rsqrt_hidden"}));
    f("logit_softcapping", logit_softcapping,
      "logits become c tanh(logits / c) with this c (Gemma 2's final_logit_softcapping); 0: off", at_least(0));
  }
};

class Lm final : public Head {
 public:
  Lm(const Scope& scope, const LmConfig& config, const Args& args)
      : tied_(args.tied != nullptr),
        weight_(tied_ ? args.tied
                      : scope.parameter("weight", {Axis::hidden(args.hidden_size), Axis::vocabulary(args.vocab_size)},
                                        InitRole::matrix)),
        bias_(config.bias ? scope.parameter("bias", {Axis::vocabulary(args.vocab_size)}, InitRole::zeros) : nullptr),
        cap_(config.logit_softcapping),
        factor_(config.row_scale == "one" ? 1 : 1 / std::sqrt(double(args.hidden_size))),
        stop_token_(config.stop_token),
        stop_coef_(config.stop_loss_coef) {
    if (config.row_scale != "one") scope.couples({Dimension::hidden});
    if (config.early_stop) stop_ = Linear(scope / "stop", Axis::hidden(args.hidden_size), 2, true);
  }
  LabelCount count(const Sequences& sequences) const override {
    return {sequences.rows(), weight_->master.dim(tied_ ? 0 : 1)};
  }
  Var logits(const Rows& rows) const override {
    const Var plain = linear(scaled(rows.x), weight_->var(), var_or_none(bias_), tied_);
    return cap_ == 0 ? plain : scale(activate(kernels::Activation::tanh, scale(plain, 1 / cap_)), cap_);
  }
  Var stop_logits(const Var& x) const override { return stop_.weight ? stop_(x) : Var(); }
  Var loss(const Rows& rows, const LossArgs& args) const override {
    const Var of_tokens = token_loss(rows, args);
    return stop_.weight && stop_coef_ > 0 ? add(of_tokens, stop_loss(rows.x, args)) : of_tokens;
  }

 private:
  bool tied_;
  Parameter *weight_, *bias_;
  double cap_, factor_;
  int64_t stop_token_;
  double stop_coef_;
  Linear stop_;

  Var scaled(const Var& x) const { return factor_ == 1 ? x : scale(x, factor_); }
  Var token_loss(const Rows& rows, const LossArgs& args) const {
    if (cap_ != 0) return cross_entropy(logits(rows), args.labels, args.smoothing, args.scale, args.sums, args.row_nll);
    return linear_cross_entropy(scaled(rows.x), weight_->var(), tied_, args.labels, args.smoothing, args.scale,
                                args.sums, args.row_nll, var_or_none(bias_));
  }
  // The share of the loss's scale that a row has is that of its token.
  Var stop_loss(const Var& x, const LossArgs& args) const {
    const Tensor labels = empty(args.labels.shape(), DType::i32, x.device());
    for (int64_t i = 0; i < labels.numel() && !labels.is_meta(); ++i) {
      const int32_t next = args.labels.data<int32_t>()[i];
      labels.data<int32_t>()[i] = next < 0 ? -1 : int32_t(next == stop_token_);
    }
    return cross_entropy(stop_(x), labels, 0, args.scale * stop_coef_);
  }
};

}  // namespace

void register_head_lm(Registry& registry) {
  registry.add<Head, Lm, LmConfig>("lm",
                                   {.summary = "logits over the vocabulary, with tied or separate output embedding",
                                    .source = "TB 6.1.1, Eq 6.10",
                                    .standard = true,
                                    .samples = {"{bias: true}", "{logit_softcapping: 2}", "{row_scale: rsqrt_hidden}",
                                                "{early_stop: true, stop_token: 3}"}});
}

}  // namespace lithe
