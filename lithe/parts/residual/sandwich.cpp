// A norm before each sub-layer and one after it: norm'(F(norm(x))) + x, with one more norm after the last layer [Ding
// et al. 2021; Gemma 2 and 3].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct SandwichConfig {
  PartChoice norm{"rms", {}};
  void fields(Fields& f) { f.part("norm", "norm", norm, "norm after the sub-layer"); }
};

class Sandwich final : public Residual {
 public:
  Sandwich(const Scope& scope, const SandwichConfig& config, const Args& args)
      : before_(args.norm),
        after_(Registry::instance().make<Norm>(config.norm, scope / "norm", {.hidden_size = args.hidden_size})),
        dropout_(args.dropout) {}
  Var forward(const Var& x, const SubLayerFunction& f) const override { return add(change(x, f), x); }
  Var change(const Var& x, const SubLayerFunction& f) const override {
    return after_->forward((*dropout_)(f(input(x), 0)));
  }
  bool adds() const override { return true; }
  Var input(const Var& x) const override { return before_->forward(x); }
  bool final_norm() const override { return true; }

 private:
  const Norm* before_;
  std::unique_ptr<Norm> after_;
  const Dropout* dropout_;
};

}  // namespace

void register_residual_sandwich(Registry& registry) {
  registry.add<Residual, Sandwich, SandwichConfig>(
      "sandwich", {.summary = "norm'(F(norm(x))) + x, final norm", .source = "Ding et al. 2021; Gemma 2"});
}

}  // namespace lithe
