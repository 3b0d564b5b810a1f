// Second-order Runge-Kutta: the sub-layer is evaluated twice, g1 = F(norm(x)), g2 = F(norm(x + g1)), and x moves by the
// mean of both (Heun), or by the second, taken half way (midpoint) [TB Fig 6.11b; Li et al. 2022].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct Config {
  std::string method = "heun";
  void fields(Fields& f) {
    f("method", method, "heun: x + (g1 + g2) / 2; midpoint: x + F(norm(x + g1 / 2))", one_of({"heun", "midpoint"}));
  }
};

class Rk2 final : public Residual {
 public:
  Rk2(const Scope&, const Config& config, const Args& args)
      : heun_(config.method == "heun"), norm_(args.norm), dropout_(args.dropout) {}
  Var forward(const Var& x, const SubLayerFunction& f) const override { return add(change(x, f), x); }
  Var change(const Var& x, const SubLayerFunction& f) const override {
    const auto slope = [&](const Var& at, int64_t stage) { return (*dropout_)(f(norm_->forward(at), stage), stage); };
    const Var first = slope(x, 0), second = slope(add(x, first, 1, heun_ ? 1 : 0.5), 1);
    return heun_ ? add(first, second, 0.5, 0.5) : second;
  }
  bool adds() const override { return true; }
  Var input(const Var& x) const override { return norm_->forward(x); }
  int64_t stages() const override { return 2; }
  bool final_norm() const override { return true; }

 private:
  bool heun_;
  const Norm* norm_;
  const Dropout* dropout_;
};

}  // namespace

void register_residual_rk2(Registry& registry) {
  registry.add<Residual, Rk2, Config>("rk2", {.spec = "ode.rk2",
                                              .summary = "each sub-layer twice, a Runge-Kutta step of order 2",
                                              .source = "TB Fig 6.11b",
                                              .samples = {"{method: midpoint}"}});
}

}  // namespace lithe
