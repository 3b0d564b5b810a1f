// Linear multi-step method: z_l = sum_i a_i z_{l-i} + h sum_i b_i f_{l-i}, f_{l-i} what a sub-layer adds to z_{l-i}.
// What sub-layers below have computed is used again, so that each runs once; the first ones take steps of lower order
// [TB Eq 6.101-6.102, E20].
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/weighted_sum.h"

namespace lithe {
namespace {

struct MultistepConfig {
  int64_t order = 2;
  double step = 1;
  bool learn = false;
  void fields(Fields& f) {
    f("order", order,
      "order p of the Adams-Bashforth method: b is (1), (3, -1) / 2 or (23, -16, 5) / 12, a is (1, 0, ...)",
      between(1, 3));
    f("step", step, "step size h", between(-1e6, 1e6));
    f("learn", learn, "a and b are learned from there on: 2p numbers for the whole stack");
  }
};

std::vector<double> adams_bashforth(int64_t order) {
  if (order == 1) return {1};
  if (order == 2) return {1.5, -0.5};
  return {23.0 / 12, -16.0 / 12, 5.0 / 12};
}

class Multistep final : public Stack {
 public:
  Multistep(const Scope& scope, const MultistepConfig& config, const Args&) : order_(config.order), step_(config.step) {
    if (!config.learn) return;
    learned_ = scope.parameter("coefficients", {2 * order_}, InitRole::zeros);  // a, then b
    const Tensor value = learned_->master.value();
    if (value.is_meta()) return;
    set_value(value, 0, 1);
    const std::vector<double> b = adams_bashforth(order_);
    for (int64_t i = 0; i < order_; ++i) set_value(value, order_ + i, step_ * b[size_t(i)]);
  }
  bool wires() const override { return true; }

  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    std::vector<Var> z, f;  // the newest first
    Var at = x.x;
    for (int64_t l = 0; l < layers.count(); ++l) {
      const Pass mine = pass.within(l);
      for (int64_t sub = 0; sub < layers.sub_layers(l); ++sub) {
        const Var added = layers.change(l, sub, {at, x.sequences}, mine);
        if (!added.defined()) continue;
        z.insert(z.begin(), at);
        f.insert(f.begin(), added);
        if (int64_t(z.size()) > order_) z.pop_back(), f.pop_back();
        at = next(z, f);
      }
      if (mine.wants(Tap::Kind::rows) && !mine.ended()) mine.put(Tap::Kind::rows, at);
    }
    return {at, x.sequences};
  }

 private:
  int64_t order_;
  double step_;
  Parameter* learned_ = nullptr;

  Var next(const std::vector<Var>& z, const std::vector<Var>& f) const {
    if (learned_ && int64_t(z.size()) == order_) {
      std::vector<Var> all = z;
      all.insert(all.end(), f.begin(), f.end());
      return weighted_sum(all, learned_->var());
    }
    const std::vector<double> b = adams_bashforth(int64_t(z.size()));
    Var out = z[0];
    for (size_t i = 0; i < f.size(); ++i) out = add(out, f[i], 1, step_ * b[i]);
    return out;
  }
};

}  // namespace

void register_stack_multistep(Registry& registry) {
  registry.add<Stack, Multistep, MultistepConfig>(
      "multistep",
      {.spec = "ode.multistep",
       .summary = "a linear multi-step method: each sub-layer's step uses what the sub-layers below have added",
       .source = "TB Eq 6.101-6.102, E20",
       .samples = {"{order: 3, step: 0.7}", "{order: 2, learn: true}"}});
}

}  // namespace lithe
