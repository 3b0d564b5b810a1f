// Pre-norm: F(LNorm(x)) + x, with one more norm after the last layer [TB Eq 6.36 in its standard form, E07].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

class Pre final : public Residual {
 public:
  Pre(const Scope&, const NoOptions&, const Args& args) : norm_(args.norm), dropout_(args.dropout) {}
  Var forward(const Var& x, const SubLayerFunction& f) const override { return add(change(x, f), x); }
  Var change(const Var& x, const SubLayerFunction& f) const override { return (*dropout_)(f(input(x), 0)); }
  bool adds() const override { return true; }
  Var input(const Var& x) const override { return norm_->forward(x); }
  bool final_norm() const override { return true; }

 private:
  const Norm* norm_;
  const Dropout* dropout_;
};

}  // namespace

void register_residual_pre(Registry& registry) {
  registry.add<Residual, Pre, NoOptions>("pre", {.spec = "block.pre_norm",
                                                 .summary = "F(norm(x)) + x, final norm",
                                                 .source = "TB Eq 6.36 in its standard form, E07",
                                                 .standard = true});
}

}  // namespace lithe
