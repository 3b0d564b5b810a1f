#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

// oracle: mem.avg_pool
TEST(AvgPoolMemory, WithoutItselfATokenTakesTheMeanOfTheValuesBefore) {
  MemoryAlone memory("{type: avg_pool, include_self: false}");
  const Tensor x = rows(9), y = memory(x), v = Made(memory, x).v, mean = zeros({9, kMemoryWidth}, DType::f64);
  for (int64_t i = 1; i < 9; ++i)
    for (int64_t c = 0; c < kMemoryWidth; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < i; ++j) sum += value_at(v, j * kMemoryWidth + c);
      set_value(mean, i * kMemoryWidth + c, sum / double(i));
    }
  EXPECT_LT(kit::largest_difference(y, kit::product(mean, memory.bench["part.output.weight"])), 1e-12);
}

TEST(AvgPoolMemory, TheOrderOfWhatWasBeforeDoesNotMatter) {
  MemoryAlone memory("avg_pool");
  const Tensor x = rows(6), other = kit::rows_of(x, {3, 0, 4, 2, 1, 5});
  EXPECT_LT(kit::largest_difference(memory(x).slice(5, 6), memory(other).slice(5, 6)), 1e-12);
  EXPECT_EQ(memory.mixer->state_bytes({1}, DType::f32), memory.mixer->state_bytes({100000}, DType::f32));
}

}  // namespace
}  // namespace lithe
