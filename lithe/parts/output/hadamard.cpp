// A fixed Hadamard matrix with a learned scale and shift in place of the output projection [HP 4.1]:
//   out = alpha * (Y H / sqrt(d)) + beta, Y [N,d] the concatenated heads; 2d parameters, d log2 d additions a row.
// beta is the projection's bias, with output_bias and without.
// spec: out_proj.policy | parts | output dense, hadamard or none under every attention | HP 4.1
#include <cmath>

#include "lithe/kernels/hadamard/hadamard.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/hadamard.h"

namespace lithe {
namespace {

struct HadamardConfig {
  std::string transform = "kronecker", scale = "inverse_sqrt", init = "ones";
  std::optional<int64_t> base_order;
  void fields(Fields& f) {
    f("transform", transform,
      "kronecker: H of order hidden_size = m 2^k with m 1, 12, 20, 28 or 36 (Paley II; 20: Paley I); pad: heads are "
      "padded with zeros to a power of two, not orthogonal",
      one_of({"kronecker", "pad"}));
    f("base_order", base_order,
      "order m of the base matrix; it follows from hidden_size (1 with pad), and any other value is refused; null: not "
      "stated",
      at_least(1));
    f("scale", scale, "factor on H of order D: inverse_sqrt: 1/sqrt(D), which keeps norms; inverse: 1/D; one: 1",
      one_of({"inverse_sqrt", "inverse", "one"}));
    f("init", init, "initial alpha: ones: 1; residual: 1/sqrt(2 layers)", one_of({"ones", "residual"}));
  }
};

class Hadamard final : public Output {
 public:
  Hadamard(const Scope& scope, const HadamardConfig& config, const Args& args) {
    const int64_t d = args.hidden_size;
    check_usage(args.context.size() == d, "output", "part hadamard needs heads * head_dim = hidden_size ", d, ", got ",
                args.context.size());
    order_ = config.transform == "pad" ? kernels::hadamard_padded(d) : d;
    kernels::check_hadamard_order("output", order_, "choose such a hidden_size, or part hadamard with transform: pad");
    const int64_t base = kernels::hadamard_base(order_)->order;
    check_usage(config.base_order.value_or(base) == base, "output", "part hadamard: base_order must be ", base,
                " for order ", order_, ", got ", config.base_order.value_or(base), "; leave it out");
    const double order = double(order_);
    scale_ = config.scale == "inverse_sqrt" ? 1 / std::sqrt(order) : config.scale == "inverse" ? 1 / order : 1;
    // Every row of H reads every column of the heads, and there is a matrix of few orders only.
    scope.couples({Dimension::hidden, Dimension::key_heads, Dimension::queries, Dimension::head_width});
    alpha_ = scope.parameter("alpha", {Axis::hidden(d)}, InitRole::ones, {.joins = true});
    beta_ = scope.parameter("beta", {Axis::hidden(d)}, InitRole::zeros, {.joins = true});
    const Tensor& alpha = alpha_->master.value();
    if (config.init == "residual" && !alpha.is_meta()) {
      const double start = 1 / std::sqrt(2.0 * double(std::max<int64_t>(scope.context().layers, 1)));
      for (int64_t c = 0; c < d; ++c) set_value(alpha, c, start);
    }
  }
  Var forward(const Var& context) const override {
    return hadamard(context, alpha_->var(), beta_->var(), order_, scale_);
  }

 private:
  int64_t order_;
  double scale_;
  Parameter *alpha_, *beta_;
};

}  // namespace

void register_output_hadamard(Registry& registry) {
  registry.add<Output, Hadamard, HadamardConfig>(
      "hadamard", {.spec = "proj.hadamard",
                   .summary = "fixed Hadamard transform with learned scale and shift, 2d parameters",
                   .source = "HP 4.1"});
}

}  // namespace lithe
