// f(x W_h + b_h) W_f + b_f: the common ground of the ffn parts relu and gelu.
#pragma once

#include "lithe/nn/slots.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {

struct FeedForwardConfig {
  int64_t intermediate_size = 0;
  bool bias = true;
  void fields(Fields& f) {
    f("intermediate_size", intermediate_size, "hidden width d_ff; 0: 4 hidden_size", at_least(0).of({Dimension::ffn}));
    f("bias", bias, "biases on both maps");
  }
};

class FeedForward : public Ffn {
 public:
  FeedForward(const Scope& scope, const FeedForwardConfig& config, const Args& args, kernels::Activation kind)
      : kind_(kind) {
    const Axis d = Axis::hidden(args.hidden_size),
               d_ff = Axis::ffn(config.intermediate_size ? config.intermediate_size : 4 * args.hidden_size);
    up_ = (scope / "up").parameter("weight", {d, d_ff}, InitRole::matrix);
    if (config.bias) up_bias_ = (scope / "up").parameter("bias", {d_ff}, InitRole::zeros);
    down_ = Linear(scope / "down", d_ff, d, config.bias, InitRole::residual_output);
  }
  Var forward(const SubLayerInput& in) const override {
    const Var hidden = linear(in.x, up_->var());  // [N, d_ff]; the bias joins the activation's pass
    return activated_linear(kind_, hidden, var_or_none(up_bias_), down_.weight->var(), var_or_none(down_.bias));
  }

 protected:
  /// The hidden rows [N, d_ff], for parts that look at them; forward() never stores them beside their gradient's needs.
  Var activated(const Var& x) const {
    const Var hidden = linear(x, up_->var());
    return activate(kind_, up_bias_ ? row_affine(hidden, {}, up_bias_->var()) : hidden);
  }
  Var down(const Var& hidden) const { return down_(hidden); }

 private:
  kernels::Activation kind_;
  Parameter *up_ = nullptr, *up_bias_ = nullptr;
  Linear down_;
};

}  // namespace lithe
