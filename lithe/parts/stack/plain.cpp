// Layers one after another [TB Eq 6.1, 6.16].
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class Plain final : public Stack {
 public:
  Plain(const Scope&, const NoOptions&, const Args&) {}
  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    Rows rows = x;
    for (int64_t i = 0; i < layers.count(); ++i) rows = layers.run(i, rows, pass);
    return rows;
  }
};

}  // namespace

void register_stack_plain(Registry& registry) {
  registry.add<Stack, Plain, NoOptions>(
      "plain", {.summary = "layers one after another", .source = "TB Eq 6.1, 6.16", .standard = true});
}

}  // namespace lithe
