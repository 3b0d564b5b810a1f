#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

// oracle: mem.continuous
TEST(ContinuousMemory, AsManyBumpsAsTokensWithoutARidgeAreFullAttention) {
  AttentionAlone full;
  MemoryAlone memory("{type: continuous, basis: 5, refit: 5, ridge: 0}");
  share(memory, full);
  const Tensor x = rows(9);  // the fit is after token 4
  EXPECT_LT(difference(memory(x), full(x)), 1e-9);
}

TEST(ContinuousMemory, ARidgeShrinksAndTheStateStaysOfOneSize) {
  MemoryAlone exact("{type: continuous, basis: 4, refit: 4, ridge: 0}"),
      shrunk("{type: continuous, basis: 4, refit: 4, ridge: 10}");
  fill_zero(exact.bench["part.heads.k.weight"]);
  fill_zero(shrunk.bench["part.heads.k.weight"]);
  const Tensor same = kit::rows_of(rows(1), {0, 0, 0, 0, 0});
  const auto size = [](const Tensor& y) {
    double sum = 0;
    for (int64_t c = 0; c < kMemoryWidth; ++c) sum += std::abs(value_at(y, 4 * kMemoryWidth + c));
    return sum;
  };
  const Tensor constant = exact(same);
  EXPECT_LT(difference(constant.slice(4, 5), constant.slice(0, 1)), 1e-10);  // constants are reproduced
  EXPECT_LT(size(shrunk(same)), size(constant));
  for (const int64_t tokens : {4, 400, 100000})
    EXPECT_EQ(exact.mixer->state_bytes({tokens}, DType::f32), 2 * 4 * kMemoryWidth * 4);
}

TEST(ContinuousMemory, IsLinearInTheValues) {
  MemoryAlone memory("{type: continuous, basis: 3, refit: 2}");
  const Tensor x = rows(11), y = memory(x);
  const Tensor v = memory.bench["part.heads.v.weight"];
  for (int64_t i = 0; i < v.numel(); ++i) set_value(v, i, 2 * value_at(v, i));
  const Tensor twice = memory(x);
  for (int64_t i = 0; i < y.numel(); ++i) EXPECT_NEAR(value_at(twice, i), 2 * value_at(y, i), 1e-11);
}

}  // namespace
}  // namespace lithe
