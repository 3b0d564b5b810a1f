#include <gtest/gtest.h>

#include "tests/parts/combiner/combiner_kit.h"

namespace lithe {
namespace {

// oracle: syn.combine
TEST(PoolCombiner, LaysMeansSideBySideWhateverTheOrderOfRows) {
  const Rows a = kit::some_rows({0, 3, 5}, 1), b = kit::some_rows({0, 1, 5}, 2);
  for (const char* kind : {"mean", "max"}) {
    kit::Combining pool("pool", cat("{kind: ", kind, "}"));
    EXPECT_EQ(pool.bench.parameters().count(), 0);
    EXPECT_EQ(pool.part->width(), 8);
    const Rows y = pool({a, b});
    EXPECT_EQ(y.x.shape(), (Shape{2, 8}));
    EXPECT_EQ(y.sequences.offsets(), (std::vector<int64_t>{0, 1, 2}));
    const auto expected = [&](const Rows& of, int64_t text, int64_t c) {
      double most = -1e30, sum = 0;
      for (int64_t row = of.sequences.offset(text); row < of.sequences.offset(text + 1); ++row) {
        most = std::max(most, value_at(of.x.value(), row * 4 + c));
        sum += value_at(of.x.value(), row * 4 + c);
      }
      return kind == std::string("max") ? most : sum / double(of.sequences.length(text));
    };
    for (int64_t text = 0; text < 2; ++text)
      for (int64_t c = 0; c < 4; ++c) {
        EXPECT_NEAR(value_at(y.x.value(), text * 8 + c), expected(a, text, c), 1e-14);
        EXPECT_NEAR(value_at(y.x.value(), text * 8 + 4 + c), expected(b, text, c), 1e-14);
      }
    const Rows turned{Var(kit::rows_of(a.x.value(), {2, 0, 1, 4, 3})), a.sequences};
    EXPECT_EQ(kit::close(pool({turned, b}).x.value(), y.x.value(), 8), "");
  }
}

}  // namespace
}  // namespace lithe
