// Parallel sub-layers: all of a layer read the same rows, x + sum_i F_i(norm_i(x)) [Wang and Komatsuzaki 2021;
// GPT-NeoX, Phi].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

class Parallel final : public Stack {
 public:
  Parallel(const Scope&, const NoOptions&, const Args&) {}
  bool wires() const override { return true; }
  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    Rows rows = x;
    for (int64_t i = 0; i < layers.count(); ++i) {
      const Pass within = pass.within(i);
      Var sum = rows.x;
      for (int64_t sub = 0; sub < layers.sub_layers(i); ++sub)
        if (const Var change = layers.change(i, sub, rows, within); change.defined()) sum = add(change, sum);
      rows.x = sum;
      if (within.wants(Tap::Kind::rows)) within.put(Tap::Kind::rows, rows.x);
    }
    return rows;
  }
};

}  // namespace

void register_stack_parallel(Registry& registry) {
  registry.add<Stack, Parallel, NoOptions>("parallel", {.summary = "sub-layers of a layer read the same rows",
                                                        .source = "Wang and Komatsuzaki 2021; Black et al. 2022"});
}

}  // namespace lithe
