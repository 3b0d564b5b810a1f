// Second-order Runge-Kutta: the sub-layer is evaluated twice, g1 = F(norm(x)), g2 = F(norm(x + g1)), and x moves by the
// mean of both (Heun), by the second, taken half way (midpoint), or by a learned mixture of both (gated) [TB Fig 6.11b;
// Li et al. 2022].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct Rk2Config {
  std::string method = "heun";
  void fields(Fields& f) {
    f("method", method,
      "heun: x + (g1 + g2) / 2; midpoint: x + F(norm(x + g1 / 2)); gated: x + s g1 + (1 - s) g2, s = sigmoid(g1 W1 + "
      "g2 W2 + b)",
      one_of({"heun", "midpoint", "gated"}));
  }
};

class Rk2 final : public Residual {
 public:
  Rk2(const Scope& scope, const Rk2Config& config, const Args& args)
      : midpoint_(config.method == "midpoint"), norm_(args.norm), dropout_(args.dropout) {
    if (config.method != "gated" || !norm_) return;  // without a norm it is only asked whether it ends with one
    const Axis rows = Axis::hidden(args.hidden_size);
    first_ = Linear(scope / "gate" / "first", rows, rows, true);
    second_ = Linear(scope / "gate" / "second", rows, rows, false);
  }
  Var forward(const Var& x, const SubLayerFunction& f) const override { return add(change(x, f), x); }
  Var change(const Var& x, const SubLayerFunction& f) const override {
    const auto slope = [&](const Var& at, int64_t stage) { return (*dropout_)(f(norm_->forward(at), stage), stage); };
    const Var first = slope(x, 0), second = slope(add(x, first, 1, midpoint_ ? 0.5 : 1), 1);
    if (midpoint_) return second;
    const Var mean = add(first, second, 0.5, 0.5);
    if (!first_.weight) return mean;
    // s = (1 + tanh(a/2)) / 2, so s g1 + (1 - s) g2 is their mean and tanh(a/2) times half of their difference.
    const Var half = activate(kernels::Activation::tanh, add(first_(first), second_(second), 0.5, 0.5));
    return add(mean, mul(half, add(first, second, 0.5, -0.5)));
  }
  bool adds() const override { return true; }
  Var input(const Var& x) const override { return norm_->forward(x); }
  int64_t stages() const override { return 2; }
  bool final_norm() const override { return true; }

 private:
  bool midpoint_;
  Linear first_, second_;  // gated: of g1 and g2
  const Norm* norm_;
  const Dropout* dropout_;
};

}  // namespace

void register_residual_rk2(Registry& registry) {
  registry.add<Residual, Rk2, Rk2Config>("rk2",
                                         {.spec = "ode.rk2",
                                          .summary = "each sub-layer is evaluated twice: a Runge-Kutta step of order 2",
                                          .source = "TB Fig 6.11b",
                                          .samples = {"{method: midpoint}", "{method: gated}"}});
}

}  // namespace lithe
