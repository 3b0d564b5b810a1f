// Post-norm: LNorm(F(x) + x) [TB Eq 6.2-6.4, 6.35, 6.77].
#include "lithe/base/log.h"
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class Post final : public Residual {
 public:
  Post(const Scope& scope, const NoOptions&, const Args& args) : norm_(args.norm), dropout_(args.dropout) {
    if (norm_ && norm_->fuses_sum() && scope.context().device == Device::cpu && verbose("fusion"))
      log_info("fusion: ", scope.path(), ": the sum of the residual and its norm in one pass");
  }
  Var forward(const Var& x, const SubLayerFunction& f) const override {
    return norm_->forward_sum((*dropout_)(f(x, 0)), x);
  }
  bool final_norm() const override { return false; }

 private:
  const Norm* norm_;
  const Dropout* dropout_;
};

}  // namespace

void register_residual_post(Registry& registry) {
  registry.add<Residual, Post, NoOptions>(
      "post", {.spec = "block.post_norm", .summary = "norm(F(x) + x)", .source = "TB Eq 6.2-6.4, 6.35, 6.77"});
}

}  // namespace lithe
