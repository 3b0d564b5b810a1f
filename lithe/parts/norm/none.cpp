// No norm: rows pass unchanged. With residual pre a block is x + F(x), an Euler step [TB 6.3.2(1) end, Eq 6.96].
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class NoNorm final : public Norm {
 public:
  NoNorm(const Scope&, const NoOptions&, const Args&) {}
  Var forward(const Var& x) const override { return x; }
};

}  // namespace

void register_norm_none(Registry& registry) {
  registry.add<Norm, NoNorm, NoOptions>(
      "none", {.summary = "rows pass unchanged, for residuals that need no norm", .source = "TB 6.3.2(1) end"});
}

}  // namespace lithe
