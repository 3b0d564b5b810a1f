#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

// oracle: mem.recursive
TEST(RecursiveMemory, ItsMeanIsThatOfAvgPool) {
  MemoryAlone mean("{type: recursive, update: mean}"), pool("avg_pool");
  const Tensor x = rows(11);
  EXPECT_LT(kit::largest_difference(mean(x), pool(x)), 1e-12);
}

TEST(RecursiveMemory, TheDecayingMeanHasTheWeightsOfTheFormula) {
  MemoryAlone memory("{type: recursive, update: ema, decay: 0.7, include_self: false}");
  const Tensor x = rows(7), v = Made(memory, x).v, want = zeros({7, kMemoryWidth}, DType::f64);
  for (int64_t i = 1; i < 7; ++i)
    for (int64_t c = 0; c < kMemoryWidth; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < i; ++j) sum += 0.3 * std::pow(0.7, double(i - 1 - j)) * value_at(v, j * kMemoryWidth + c);
      set_value(want, i * kMemoryWidth + c, sum);
    }
  EXPECT_LT(kit::largest_difference(memory(x), kit::product(want, memory.bench["part.output.weight"])), 1e-12);
}

TEST(RecursiveMemory, ACellWithoutWeightsForTheRowsIgnoresThem) {
  MemoryAlone memory("{type: recursive, update: rnn, include_self: false}");
  for (const char* of : {"k", "v"}) fill_zero(memory.bench[cat("part.memory.", of, ".rows.weight")]);
  EXPECT_LT(kit::largest_difference(memory(rows(8, 3)), memory(rows(8, 4))), 1e-12);
}

}  // namespace
}  // namespace lithe
