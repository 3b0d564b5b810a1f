// Tile operations against scalar formulas. On processors without tiles it is the emulation that runs.
#define LITHE_ISA tile_test
#include "lithe/kernels/cpu/tile_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "lithe/tensor/dtype.h"

namespace lithe::kernels::tile_tests {
namespace {

namespace tile = cpu::tile_test::tile;
using Floats = std::vector<float>;

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

struct Drawn {
  std::mt19937 generator{7};
  float normal() { return std::normal_distribution<float>()(generator); }
  int below(int n) { return int(generator() % unsigned(n)); }
};

// a [16,32] and b [32,16] as numbers, and as tiles hold them.
struct Operands {
  bf16 a[16][32], b[32][16];
  std::vector<uint8_t> a_tile() const {
    std::vector<uint8_t> out(1024);
    std::memcpy(out.data(), a, 1024);
    return out;
  }
  std::vector<uint8_t> b_tile() const {
    std::vector<uint8_t> out(1024);
    for (int k = 0; k < 32; ++k)
      for (int n = 0; n < 16; ++n) std::memcpy(&out[size_t(k / 2 * 64 + n * 4 + k % 2 * 2)], &b[k][n], 2);
    return out;
  }
};

// As the manual has it.
float documented(const Operands& o, float c, int m, int n) {
  float half[2] = {};
  for (int k = 0; k < 32; ++k)
    half[k % 2] = flushed(std::fma(flushed(float(o.a[m][k])), flushed(float(o.b[k][n])), half[k % 2]));
  return flushed(flushed(c) + flushed(half[0] + half[1]));
}

Floats product(const Operands& o, const Floats& c) {
  const tile::Session session;
  Floats out = c;
  const auto a = o.a_tile(), b = o.b_tile();
  tile::load<0>(c.data(), 64);
  tile::load<1>(a.data(), 64);
  tile::load<2>(b.data(), 64);
  tile::dot_bf16<0, 1, 2>();
  tile::store<0>(out.data(), 64);
  return out;
}

TEST(Tile, Bf16SumsAreThoseOfTheManual) {
  Drawn drawn;
  for (int round = 0; round < 20; ++round) {
    Operands o;
    Floats c(256);
    // Numbers of like size; then of sizes so unlike that products leave the range of f32 on both sides.
    const auto number = [&] {
      return round < 10 ? drawn.normal() : std::ldexp(drawn.normal(), drawn.below(250) - 125);
    };
    for (auto& row : o.a)
      for (bf16& x : row) x = number();
    for (auto& row : o.b)
      for (bf16& x : row) x = number();
    for (float& x : c) x = number();
    const Floats got = product(o, c);
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n) {
        const float want = documented(o, c[size_t(m * 16 + n)], m, n);
        ASSERT_EQ(std::bit_cast<uint32_t>(got[size_t(m * 16 + n)]), std::bit_cast<uint32_t>(want))
            << "round " << round << " [" << m << "," << n << "]: " << got[size_t(m * 16 + n)] << ", not " << want;
      }
  }
}

// What holds in whatever order a processor adds: 32 products and c, each rounding at most once more than it is deep.
TEST(Tile, Bf16SumsAreWithinTheBoundOfAnyOrder) {
  Drawn drawn;
  Operands o;
  Floats c(256);
  for (auto& row : o.a)
    for (bf16& x : row) x = drawn.normal();
  for (auto& row : o.b)
    for (bf16& x : row) x = drawn.normal();
  for (float& x : c) x = drawn.normal();
  const Floats got = product(o, c);
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      double sum = c[size_t(m * 16 + n)], size = std::abs(sum);
      for (int k = 0; k < 32; ++k) {
        const double term = double(float(o.a[m][k])) * double(float(o.b[k][n]));
        sum += term, size += std::abs(term);
      }
      ASSERT_NEAR(got[size_t(m * 16 + n)], sum, 34 * 0x1p-24 * size);
    }
}

TEST(Tile, SmallNumbersCountAsZeroAndOthersKeepTheirMeaning) {
  Operands o{};
  const float tiny = 0x1p-130f, inf = std::numeric_limits<float>::infinity();
  o.a[0][0] = tiny, o.b[0][0] = 0x1p100f;      // an input
  o.a[1][0] = 0x1p-70f, o.b[0][1] = 0x1p-70f;  // a product
  o.a[2][1] = inf, o.b[1][2] = 1.0f;
  o.a[3][1] = inf;  // times 0 in every other column
  Floats c(256, 0.0f);
  c[size_t(4 * 16)] = tiny;  // a sum
  c[size_t(5 * 16)] = -tiny;
  const Floats got = product(o, c);
  EXPECT_EQ(got[0], 0);
  EXPECT_EQ(got[16 + 1], 0);
  EXPECT_EQ(got[32 + 2], inf);
  EXPECT_TRUE(std::isnan(got[32 + 3]));
  EXPECT_TRUE(std::isnan(got[48]));
  EXPECT_EQ(got[4 * 16], 0);
  EXPECT_EQ(got[5 * 16], 0);
}

TEST(Tile, BytesSumExactlyModulo2To32) {
  Drawn drawn;
  std::vector<int8_t> a(1024);
  std::vector<uint8_t> b(1024);
  std::vector<int32_t> c(256), got(256), got_signed(256);
  for (const bool extreme : {false, true}) {
    for (int8_t& x : a) x = int8_t(extreme ? drawn.below(2) ? 127 : -128 : drawn.below(256) - 128);
    for (uint8_t& x : b) x = uint8_t(extreme ? 255 : drawn.below(256));
    for (int32_t& x : c) x = extreme ? drawn.below(2) ? INT32_MAX : INT32_MIN : drawn.below(1000) - 500;
    {
      const tile::Session session;
      tile::load<3>(c.data(), 64);
      tile::load<4>(a.data(), 64);
      tile::load<5>(b.data(), 64);
      tile::dot_i8_u8<3, 4, 5>();
      tile::store<3>(got.data(), 64);
      tile::load<3>(c.data(), 64);
      tile::dot_i8_i8<3, 4, 5>();
      tile::store<3>(got_signed.data(), 64);
    }
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n) {
        int64_t sum = c[size_t(m * 16 + n)], sum_signed = sum;
        for (int k = 0; k < 64; ++k) {
          const int64_t x = a[size_t(m * 64 + k)];
          const uint8_t y = b[size_t(k / 4 * 64 + n * 4 + k % 4)];
          sum += x * y, sum_signed += x * int8_t(y);
        }
        ASSERT_EQ(got[size_t(m * 16 + n)], int32_t(uint32_t(uint64_t(sum))));
        ASSERT_EQ(got_signed[size_t(m * 16 + n)], int32_t(uint32_t(uint64_t(sum_signed))));
      }
  }
}

TEST(Tile, RowsAreAsFarApartAsAsked) {
  std::vector<uint8_t> from(16 * 200), to(16 * 100, 7);
  for (size_t i = 0; i < from.size(); ++i) from[i] = uint8_t(i * 31 + i / 200);
  const tile::Session session;
  tile::load<7>(from.data() + 3, 200);
  tile::store<7>(to.data() + 5, 100);
  for (size_t r = 0; r < 16; ++r)
    for (size_t i = 0; i < 100; ++i)
      ASSERT_EQ(to[r * 100 + i], i >= 5 && i < 69 ? from[r * 200 + 3 + i - 5] : 7) << r << " " << i;
  tile::load<7>(from.data(), 0);  // one row again and again
  tile::store<7>(to.data(), 64);
  for (size_t r = 0; r < 16; ++r) EXPECT_EQ(to[r * 64 + 9], from[9]);
  tile::zero<7>();
  tile::store<7>(to.data(), 64);
  for (size_t i = 0; i < 1024; ++i) ASSERT_EQ(to[i], 0);
}

TEST(TileDeathTest, NeedsASession) {
  uint8_t bytes[1024] = {};
  EXPECT_DEATH(tile::load<0>(bytes, 64), "");
}

// Blocks of 16 and 32 rows, from zero and from sums, with and without a last step from elsewhere.
TEST(Tile, BlocksAreSumsOverTheirSteps) {
  Drawn drawn;
  for (const int row_tiles : {1, 2})
    for (const int64_t steps : {0, 1, 3})
      for (const bool last : {false, true})
        for (const bool from_zero : {false, true}) {
          const int64_t all = steps + last, rows = row_tiles * 16;
          std::vector<bf16> a(size_t(all * rows * 32 + 1)), b(size_t(all * 1024 + 1));
          for (bf16& x : a) x = float(drawn.below(9) - 4);
          for (bf16& x : b) x = float(drawn.below(9) - 4);
          Floats sums(size_t(rows * 40));
          for (float& x : sums) x = float(drawn.below(99));
          const Floats before = sums;
          std::vector<bf16> apart(b.end() - (last ? 1025 : 1), b.end());
          {
            const tile::Session session;
            const tile::BlockProduct<float> p{tile::packed_rows(reinterpret_cast<const uint8_t*>(a.data()), row_tiles),
                                              reinterpret_cast<const uint8_t*>(b.data()),
                                              steps,
                                              last ? reinterpret_cast<const uint8_t*>(apart.data()) : nullptr,
                                              reinterpret_cast<const uint8_t*>(b.data()),
                                              2,
                                              {from_zero ? nullptr : before.data(), 40},
                                              {sums.data(), 40}};
            row_tiles == 1 ? tile::multiply<tile::Bf16, 1>(p) : tile::multiply<tile::Bf16, 2>(p);
          }
          for (int64_t m = 0; m < rows; ++m)
            for (int64_t n = 0; n < 40; ++n) {
              float want = n < 32 && from_zero ? 0 : before[size_t(m * 40 + n)];  // integers: exact
              for (int64_t k = 0; n < 32 && k < all * 32; ++k) {
                const int64_t at = (k / 32 * row_tiles + m / 16) * 512 + m % 16 * 32 + k % 32;
                want += float(a[size_t(at)]) * float(b[size_t(k / 2 * 64 + n * 2 + k % 2)]);
              }
              ASSERT_EQ(sums[size_t(m * 40 + n)], want) << row_tiles << " " << steps << " [" << m << "," << n << "]";
            }
        }
}

}  // namespace
}  // namespace lithe::kernels::tile_tests

#undef LITHE_ISA
