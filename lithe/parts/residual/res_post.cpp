// The pre-norm formula as printed: LNorm(F(x)) + x [TB Eq 6.36, 6.78 as printed, E07].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

class ResPost final : public Residual {
 public:
  ResPost(const Scope&, const NoOptions&, const Args& args) : norm_(args.norm), dropout_(args.dropout) {}
  Var forward(const Var& x, const SubLayerFunction& f) const override { return add(change(x, f), x); }
  Var change(const Var& x, const SubLayerFunction& f) const override { return norm_->forward((*dropout_)(f(x, 0))); }
  bool adds() const override { return true; }
  bool final_norm() const override { return true; }

 private:
  const Norm* norm_;
  const Dropout* dropout_;
};

}  // namespace

void register_residual_res_post(Registry& registry) {
  registry.add<Residual, ResPost, NoOptions>("res_post", {.spec = "block.res_post_norm",
                                                          .summary = "norm(F(x)) + x, final norm",
                                                          .source = "TB Eq 6.36, 6.78 as printed, E07"});
}

}  // namespace lithe
