// ReZero: x + alpha F(norm(x)) with one learned number alpha, which starts at 0, so that a stack of any depth starts as
// the identity. The source has it without a norm: norm: none [TB 6.3.2(1) end; Bachlechner et al. 2021].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

class ReZero final : public Residual {
 public:
  ReZero(const Scope& scope, const NoOptions&, const Args& args) : norm_(args.norm), dropout_(args.dropout) {
    if (norm_) alpha_ = scope.parameter("alpha", {1}, InitRole::zeros);  // else it is only asked for its norm
  }
  Var forward(const Var& x, const SubLayerFunction& f) const override { return add(change(x, f), x); }
  Var change(const Var& x, const SubLayerFunction& f) const override {
    return row_affine((*dropout_)(f(input(x), 0)), alpha_->var(), {});
  }
  bool adds() const override { return true; }
  Var input(const Var& x) const override { return norm_->forward(x); }
  bool final_norm() const override { return true; }

 private:
  const Norm* norm_;
  const Dropout* dropout_;
  Parameter* alpha_ = nullptr;
};

}  // namespace

void register_residual_rezero(Registry& registry) {
  registry.add<Residual, ReZero, NoOptions>("rezero",
                                            {.spec = "block.norm_variants",
                                             .summary = "x + alpha F(norm(x)), alpha learned from 0; with norm: none",
                                             .source = "TB 6.3.2(1) end; Bachlechner et al. 2021"});
}

}  // namespace lithe
