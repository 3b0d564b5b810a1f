// The source that docs/adding-a-part.md shows is compiled with this test (tests/CMakeLists.txt takes it out of the
// page).
#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {

void register_ffn_relu_squared(Registry& registry);

namespace {

TEST(AddingAPart, TheExampleOfThePageIsAPart) {
  Registry& registry = Registry::instance();
  register_ffn_relu_squared(registry);
  kit::Bench bench;
  const auto ffn = bench.make<Ffn>("relu_squared", {.hidden_size = 1}, "{intermediate_size: 2}");
  kit::assign(bench["part.up.weight"], {1, -1});
  kit::assign(bench["part.down.weight"], {3, 5});
  const Var y = ffn->forward({Var(kit::tensor_f64({3, 1}, {2, -1, 0})), Sequences::single(3)});
  // 3 max(0, x)^2 + 5 max(0, -x)^2
  EXPECT_EQ(kit::close_to_printed(y.value(), {12, 5, 0}, 12), "");
  EXPECT_EQ(registry.get(Ffn::slot, "relu_squared", {}).describe().at(0).path, "intermediate_size");
}

}  // namespace
}  // namespace lithe
