// No positions: the mixer alone tells tokens apart (a causal one can).
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class NoPosition final : public Position {
 public:
  NoPosition(const Scope&, const NoOptions&, const Args&) {}
};

}  // namespace

void register_position_none(Registry& registry) {
  registry.add<Position, NoPosition, NoOptions>("none", {.summary = "no positions"});
}

}  // namespace lithe
