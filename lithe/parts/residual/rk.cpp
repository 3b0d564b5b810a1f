// Explicit Runge-Kutta steps: g_i = h F(norm(x + sum_{j<i} beta_ij g_j)), x' = x + sum_i gamma_i g_i, with one set of
// weights for all g_i. `steps` of them follow each other: the sub-layer as the right side of a differential equation
// that is solved over a depth of steps * step [TB Eq 6.96-6.100, 6.103-6.110, 6.3.3 end].
// spec: ode.rk | residual | explicit Runge-Kutta of any tableau, one sub-layer | TB Eq 6.103-6.105
// spec: ode.rk4 | residual | classical Runge-Kutta, four evaluations | TB Eq 6.106-6.110
// spec: ode.euler | residual | x + h F(norm(x)) | TB Eq 6.96-6.100
// spec: ode.neural | residual | continuous depth, solved by several fixed steps | TB 6.3.3 end
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct RkConfig {
  std::string method = "rk4";
  std::vector<double> offsets, weights;
  double step = 1;
  int64_t steps = 1;
  void fields(Fields& f) {
    f("method", method,
      "euler: one evaluation; midpoint, heun: two; kutta3: three; rk4: four (classical); tableau: given by `offsets` "
      "and `weights`",
      one_of({"euler", "midpoint", "heun", "kutta3", "rk4", "tableau"}));
    f("offsets", offsets,
      "method tableau: beta row by row, without zeros: beta_21, beta_31, beta_32, ...; empty for one evaluation");
    f("weights", weights, "method tableau: gamma, one number per evaluation");
    f("step", step, "step size h, a factor on each evaluation", between(-1e6, 1e6));
    f("steps", steps, "steps per sub-layer, all with the same weights; the depth is steps * step", between(1, 1000));
  }
};

struct Tableau {
  std::vector<double> offsets, weights;  // below the diagonal, row by row
};

Tableau tableau_of(const RkConfig& config) {
  if (config.method == "euler") return {{}, {1}};
  if (config.method == "midpoint") return {{0.5}, {0, 1}};
  if (config.method == "heun") return {{1}, {0.5, 0.5}};
  if (config.method == "kutta3") return {{0.5, -1, 2}, {1.0 / 6, 2.0 / 3, 1.0 / 6}};
  if (config.method == "rk4") return {{0.5, 0, 0.5, 0, 0, 1}, {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6}};
  return {config.offsets, config.weights};
}

class RungeKutta final : public Residual {
 public:
  RungeKutta(const Scope&, const RkConfig& config, const Args& args)
      : tableau_(tableau_of(config)),
        step_(config.step),
        steps_(config.steps),
        norm_(args.norm),
        dropout_(args.dropout) {
    const size_t n = tableau_.weights.size();
    check_usage(config.method == "tableau" || (config.offsets.empty() && config.weights.empty()), "rk", "method ",
                config.method, " has its own numbers; leave offsets and weights out, or set method: tableau");
    check_usage(n >= 1 && tableau_.offsets.size() == n * (n - 1) / 2, "rk",
                "a tableau of s weights has s (s - 1) / 2 offsets, one for each evaluation before; got ", n,
                " weights and ", tableau_.offsets.size(), " offsets");
  }
  Var forward(const Var& x, const SubLayerFunction& f) const override {
    Var at = x;
    for (int64_t i = 0; i < steps_; ++i) at = plus(at, step(at, i, f), tableau_.weights.data());
    return at;
  }
  Var change(const Var& x, const SubLayerFunction& f) const override {
    if (steps_ > 1) return add(forward(x, f), x, 1, -1);
    const std::vector<Var> g = step(x, 0, f);
    Var out;
    for (size_t i = 0; i < g.size(); ++i)
      if (const double w = tableau_.weights[i] * step_; w != 0)
        out = out.defined() ? add(out, g[i], 1, w) : w == 1 ? g[i] : scale(g[i], w);
    return out.defined() ? out : scale(x, 0);
  }
  bool adds() const override { return true; }
  Var input(const Var& x) const override { return norm_->forward(x); }
  int64_t stages() const override { return steps_ * int64_t(tableau_.weights.size()); }
  bool final_norm() const override { return true; }

 private:
  Tableau tableau_;
  double step_;
  int64_t steps_;
  const Norm* norm_;
  const Dropout* dropout_;

  // x + h sum factors[i] g[i]
  Var plus(const Var& x, const std::vector<Var>& g, const double* factors) const {
    Var out = x;
    for (size_t i = 0; i < g.size(); ++i)
      if (factors[i] != 0) out = add(out, g[i], 1, factors[i] * step_);
    return out;
  }
  // The evaluations of step number `index` at x, before h.
  std::vector<Var> step(const Var& x, int64_t index, const SubLayerFunction& f) const {
    const auto count = int64_t(tableau_.weights.size());
    std::vector<Var> g;
    const double* row = tableau_.offsets.data();
    for (int64_t i = 0; i < count; row += i, ++i) {
      const int64_t stage = index * count + i;
      g.push_back((*dropout_)(f(norm_->forward(plus(x, g, row)), stage), stage));
    }
    return g;
  }
};

}  // namespace

void register_residual_rk(Registry& registry) {
  registry.add<Residual, RungeKutta, RkConfig>(
      "rk", {.spec = "ode.rk",
             .summary = "Runge-Kutta steps of any order, and several of them; Euler steps of any size",
             .source = "TB Eq 6.96-6.100, 6.103-6.110",
             .samples = {"{method: euler, step: 0.5}", "{method: euler, steps: 3, step: 0.4}",
                         "{method: tableau, offsets: [0.7], weights: [0.4, 0.6]}"}});
}

}  // namespace lithe
