// The tile instructions themselves: on the processor's tiles where it has them, else caught one by one
// (tests/support/tile_traps.h). Compiled apart from its neighbours, because it reads cpu/tile.h in its other form.
#if defined(__x86_64__) && defined(__linux__)

#define LITHE_ISA tile_instructions
#define LITHE_TILE_INSTRUCTIONS 1
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "lithe/kernels/cpu/tile_block.h"
#include "lithe/kernels/kernel.h"
#include "lithe/kernels/tile_support.h"
#include "lithe/tensor/dtype.h"
#include "tests/support/tile_traps.h"

namespace lithe::kernels::tile_instructions_tests {
namespace {

namespace tile = cpu::tile_instructions::tile;
using testing_support::trap_tiles, testing_support::trapped_tiles;

// False where nothing can carry the instructions out.
bool ready() { return processor_has_tiles() ? machine_isa() == Isa::amx : trap_tiles(); }

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

TEST(TileInstructions, SumAsTheManualSays) {
  if (!ready()) GTEST_SKIP() << "no tiles, and nothing catches their instructions";
  const long before = trapped_tiles();
  std::mt19937 generator{3};
  std::normal_distribution<float> normal;
  int differ = 0;
  for (int round = 0; round < 10; ++round) {
    bf16 a[16][32], b[16][32];  // b: row k / 2, column n, k % 2
    float c[16][16], got[16][16];
    for (auto& row : a)
      for (bf16& x : row) x = normal(generator);
    for (auto& row : b)
      for (bf16& x : row) x = normal(generator);
    for (auto& row : c)
      for (float& x : row) x = normal(generator);
    {
      const tile::Session session;
      tile::load<3>(c, 64);
      tile::load<5>(a, 64);
      tile::load<7>(b, 64);
      tile::dot_bf16<3, 5, 7>();
      tile::store<3>(got, 64);
    }
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n) {
        float half[2] = {};
        double sum = c[m][n], size = std::abs(sum);
        for (int k = 0; k < 32; ++k) {
          const float x = a[m][k], y = b[k / 2][2 * n + k % 2];
          half[k % 2] = flushed(std::fma(x, y, half[k % 2]));
          sum += double(x) * double(y), size += std::abs(double(x) * double(y));
        }
        // In whatever order a processor adds.
        ASSERT_NEAR(got[m][n], sum, 34 * 0x1p-24 * size) << "[" << m << "," << n << "]";
        differ += got[m][n] != flushed(c[m][n] + flushed(half[0] + half[1]));
      }
  }
  if (processor_has_tiles()) {
    // No promise that is needed: rowwise products keep to tiles. But it should be known.
    RecordProperty("sums_that_differ_from_the_manual", differ);
    std::printf("of 2560 sums, %d differ in bits from what the manual describes\n", differ);
  } else {
    EXPECT_EQ(differ, 0);
    EXPECT_GT(trapped_tiles(), before + 60);
  }
}

TEST(TileInstructions, SumBytesExactlyInEveryThread) {
  if (!ready()) GTEST_SKIP() << "no tiles, and nothing catches their instructions";
  int wrong = 0;
#pragma omp parallel num_threads(3) reduction(+ : wrong)
  {
    std::mt19937 generator{unsigned(omp_get_thread_num())};
    std::vector<int8_t> a(32 * 64);
    std::vector<uint8_t> b(32 * 64);  // a step of a panel: row k / 4, column, k % 4
    for (int8_t& x : a) x = int8_t(generator());
    for (uint8_t& x : b) x = uint8_t(generator());
    std::vector<int32_t> got(32 * 32);
    {
      const tile::Session session;
      tile::multiply<tile::Bytes, 2>({tile::packed_rows(reinterpret_cast<const uint8_t*>(a.data()), 2),
                                      b.data(),
                                      1,
                                      nullptr,
                                      b.data(),
                                      0,
                                      {nullptr, 0},
                                      {got.data(), 32}});
    }
    for (size_t m = 0; m < 32; ++m)
      for (size_t n = 0; n < 32; ++n) {
        int32_t sum = 0;
        for (size_t k = 0; k < 64; ++k) sum += a[m * 64 + k] * b[k / 4 * 128 + n * 4 + k % 4];
        wrong += sum != got[m * 32 + n];
      }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(TileInstructionsDeathTest, NeedASession) {
  if (!ready()) GTEST_SKIP() << "no tiles, and nothing catches their instructions";
  uint8_t bytes[1024] = {};
  EXPECT_DEATH(tile::load<0>(bytes, 64), "");
}

}  // namespace
}  // namespace lithe::kernels::tile_instructions_tests

#endif
