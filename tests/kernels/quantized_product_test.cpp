#include "lithe/kernels/quantized_product/quantized_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "lithe/kernels/quantized_product/cpu.h"
#include "lithe/kernels/quantized_product/reference.h"
#include "tests/kernels/sweep.h"
#include "tests/support/close.h"
#include "tests/support/errors.h"

namespace lithe::kernels {
namespace {

using testing_support::expect_same_bits, testing_support::Guarded, testing_support::random_ints,
    testing_support::random_tensor;

struct Format {
  PackedFormat format;
  int64_t group;
};
constexpr Format kFormats[] = {{PackedFormat::int8, 0},  {PackedFormat::int4, 32}, {PackedFormat::int4, 64},
                               {PackedFormat::q4_0, 32}, {PackedFormat::q8_0, 32}, {PackedFormat::iq4_nl, 32},
                               {PackedFormat::q4_k, 32}, {PackedFormat::q5_k, 32}, {PackedFormat::q6_k, 16}};

// At least K inputs, which fill blocks.
int64_t inputs(const Format& f, int64_t K) {
  const int64_t block = in_blocks(f.format) ? block_format(f.format).inputs : 1;
  return (K + block - 1) / block * block;
}

// Every integer of the format, and scales of both signs.
QuantizedTensors random_weights(const PackedMatrix& m, uint64_t seed) {
  if (in_blocks(m.format)) {
    const BlockFormat f = block_format(m.format);
    const Tensor values = empty({m.outputs, m.inputs / f.inputs * f.bytes}, DType::u8),
                 drawn = random_ints(values.shape(), 0, 256, seed);
    for (int64_t i = 0; i < values.numel(); ++i) {
      const int64_t at = i % f.bytes;
      // The high byte of a half: of any sign, between 2^-7 and 2; some subnormal.
      const bool high = m.format == PackedFormat::q6_k ? at == 209 : at == 1 || (f.minimums && at == 3);
      const int byte = drawn.data<int32_t>()[i];
      values.data<uint8_t>()[i] = uint8_t(!high ? byte : byte % 16 == 0 ? byte & 0x83 : (byte & 0x9f) | 0x20);
    }
    return {values, {}};
  }
  if (!m.group) {
    const Tensor values = empty({m.outputs, m.inputs}, DType::i8), drawn = random_ints(values.shape(), -127, 128, seed);
    for (int64_t i = 0; i < values.numel(); ++i) values.data<int8_t>()[i] = int8_t(drawn.data<int32_t>()[i]);
    return {values, random_tensor({m.outputs}, DType::f32, seed + 1)};
  }
  const Tensor values = empty({m.outputs, m.groups() * m.group / 2}, DType::u8),
               drawn = random_ints(values.shape(), 0, 256, seed);
  for (int64_t i = 0; i < values.numel(); ++i) values.data<uint8_t>()[i] = uint8_t(drawn.data<int32_t>()[i]);
  return {values, random_tensor({m.outputs, m.groups()}, DType::bf16, seed + 1)};
}

PackedMatrix matrix(const Format& f, int64_t N, int64_t K, bool by_rows = true) {
  PackedMatrix m{f.format, N, K, f.group, by_rows, "w", {}, {}};
  pack(m, random_weights(m, 7));
  return m;
}

// What the rounding of a row may give: round(x / s), and which neighbours a rounding of x / s in f32 may choose
// instead.
struct RoundedRow {
  double step = 0;
  std::vector<int> q;
  std::vector<bool> near_tie;
};
RoundedRow rounded(const Tensor& x, int64_t m) {
  const int64_t K = x.cols();
  RoundedRow row;
  double most = 0;
  for (int64_t k = 0; k < K; ++k) most = std::max(most, std::abs(value_at(x, m * K + k)));
  row.step = float(most) / 127.0f;
  for (int64_t k = 0; k < K; ++k) {
    const double v = most ? value_at(x, m * K + k) * (127.0 / most) : 0;
    row.q.push_back(int(std::round(v)));
    row.near_tie.push_back(std::abs(std::abs(v - std::trunc(v)) - 0.5) < 127 * 4 * kF32);
  }
  return row;
}

struct ProductCase {
  Format format;
  int64_t M, N, K;
  DType input = DType::f32, output = DType::f32;
  bool bias = true;
};
std::ostream& operator<<(std::ostream& out, const ProductCase& c) {
  return out << name_of(c.format.format) << " group " << c.format.group << " M " << c.M << " N " << c.N << " K " << c.K
             << " " << c.input << "->" << c.output;
}

// Against the exact sums of integers. The f32 that follows rounds once a group, or, where scales are whole, three times
// a block, and a few times more.
void expect_right(const ProductCase& c) {
  SCOPED_TRACE(testing::Message() << c);
  const PackedMatrix w = matrix(c.format, c.N, c.K);
  const Tensor x = random_tensor({c.M, c.K}, c.input, 3),
               bias = c.bias ? random_tensor({c.N}, DType::f32, 4) : Tensor();
  const Guarded y(random_tensor({c.M, c.N}, c.output, 5));
  quantized_product({x, &w, y.tensor(), bias});
  y.expect_untouched("y");
  const int64_t group = w.group ? w.group : c.K,
                rounded_sums = whole_scales(w.format) ? c.K / block_format(w.format).inputs * 3 : w.groups();
  for (int64_t m = 0; m < c.M; ++m) {
    const RoundedRow row = rounded(x, m);
    for (int64_t n = 0; n < c.N; ++n) {
      const double b = c.bias ? value_at(bias, n) : 0;
      double sum = 0, size = std::abs(b), tie = 0;
      for (int64_t g = 0; g * group < c.K; ++g) {
        int64_t exact = 0, of_row = 0;
        const double scale = quantized_scale(w, n, g * group), minimum = quantized_minimum(w, n, g * group);
        for (int64_t k = g * group; k < std::min(c.K, (g + 1) * group); ++k) {
          exact += int64_t(row.q[size_t(k)]) * quantized_value(w, n, k);
          of_row += row.q[size_t(k)];
          if (row.near_tie[size_t(k)]) tie += std::abs(scale * quantized_value(w, n, k) - minimum);
        }
        sum += row.step * (scale * double(exact) - minimum * double(of_row));
        size += row.step * (std::abs(scale * double(exact)) + std::abs(minimum * double(of_row)));
      }
      const double kept = double(rounded_sums + 5) * kF32 * size * 1.01 + row.step * tie,
                   bound = kept + epsilon_of(c.output) * (std::abs(sum + b) + kept) * 1.01;
      ASSERT_NEAR(value_at(y.tensor(), m * c.N + n), sum + b, bound) << "at [" << m << "," << n << "]";
    }
  }
}

// oracle: hpc.int_matmul
TEST(QuantizedProduct, IsTheExactIntegerProductOnEveryImplementation) {
  constexpr int64_t sizes[][3] = {{1, 1, 1},    {1, 33, 100}, {2, 65, 31},  {3, 17, 64},
                                  {5, 32, 257}, {8, 96, 33},  {30, 40, 130}};
  on_every_implementation_and_tiles([&](const std::string& name) {
    SCOPED_TRACE(name);
    for (const Format& f : kFormats)
      for (const auto& s : sizes) {
        const int64_t K = inputs(f, s[2]);
        expect_right({f, s[0], s[1], K});
        expect_right({f, s[0], s[1], K, DType::bf16, DType::bf16, false});
        expect_right({f, s[0], s[1], K, DType::bf16, DType::f32});
      }
  });
}

// The largest numbers of the longest row that a model here may have: 32 bits hold their sum.
TEST(QuantizedProduct, DoesNotOverflow) {
  on_every_implementation_and_tiles([&](const std::string& name) {
    const int64_t K = name == "ref" ? 4000 : 133'000;
    PackedMatrix m{PackedFormat::int8, 1, K, 0, true, "w", {}, {}};
    QuantizedTensors t{empty({1, K}, DType::i8), empty({1}, DType::f32)};
    std::memset(t.values.raw(), 127, size_t(K));
    t.scales.data<float>()[0] = 1;
    pack(m, t);
    const Tensor x = empty({1, K}, DType::f32), y = empty({1, 1}, DType::f32);
    for (const float sign : {1.0f, -1.0f}) {
      for (int64_t k = 0; k < K; ++k) x.data<float>()[k] = sign * 127;
      quantized_product({x, &m, y});
      EXPECT_NEAR(y.data<float>()[0], sign * 127.0 * 127.0 * double(K), 127.0 * 127 * double(K) * 4 * kF32) << name;
    }
  });
  PackedMatrix m{PackedFormat::int8, 1, 133'001, 0, true, "w", {}, {}};
  EXPECT_THROW(pack(m, {}), Error);
}

// Sums of 4-bit products that kernels keep in 16 bits at their bound: 15 (7 with its offset) times +-127 throughout.
TEST(QuantizedProduct, FourBitSumsDoNotOverflow) {
  constexpr int64_t K = 256, N = 40;
  on_every_implementation_and_tiles([&](const std::string& name) {
    for (const int64_t group : {32, 64})
      for (const int value : {0, 15}) {
        PackedMatrix m{PackedFormat::int4, N, K, group, true, "w", {}, {}};
        QuantizedTensors t{empty({N, K / 2}, DType::u8), empty({N, K / group}, DType::bf16)};
        std::memset(t.values.raw(), value * 17, size_t(t.values.numel()));
        for (int64_t i = 0; i < t.scales.numel(); ++i) t.scales.data<bf16>()[i] = bf16(1.0f);
        pack(m, t);
        for (const int64_t M : {1, 7}) {
          const Tensor x = empty({M, K}, DType::f32), y = empty({M, N}, DType::f32);
          for (const float sign : {1.0f, -1.0f}) {
            for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = sign * 127;
            quantized_product({x, &m, y});
            for (int64_t i = 0; i < y.numel(); ++i)
              ASSERT_EQ(y.data<float>()[i], sign * 127 * float(value - 8) * float(K)) << name << " " << group;
          }
        }
      }
  });
}

// Whole sums of blocks at their bounds: the largest codes and scales of Q4_K and Q5_K, -32 times -128 in Q6_K.
TEST(QuantizedProduct, SumsOfBlocksDoNotOverflow) {
  constexpr int64_t N = 40;
  on_every_implementation_and_tiles([&](const std::string& name) {
    for (const PackedFormat format : {PackedFormat::q4_k, PackedFormat::q5_k, PackedFormat::q6_k}) {
      const BlockFormat f = block_format(format);
      const int64_t K = f.inputs;
      PackedMatrix m{format, N, K, f.group, true, "w", {}, {}};
      const QuantizedTensors t{zeros({N, f.bytes}, DType::u8), {}};
      const int number = f.minimums ? 63 * ((16 << f.high) - 1) - 63 : 32 * 128;
      for (int64_t n = 0; n < N; ++n) {
        uint8_t* block = t.values.data<uint8_t>() + n * f.bytes;
        std::memset(block, f.minimums ? 0xff : 0, size_t(f.bytes));
        if (!f.minimums) std::memset(block + 192, 0x80, 16);
        for (const int64_t at : f.minimums ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{208})
          block[at] = 0, block[at + 1] = 0x3c;  // 1 in f16
      }
      pack(m, t);
      ASSERT_EQ(quantized_value(m, N - 1, K - 1) * quantized_scale(m, 0, 0) - quantized_minimum(m, 0, 0), number);
      for (const int64_t M : {1, 7, 17, 40}) {
        const Tensor x = empty({M, K}, DType::f32), y = empty({M, N}, DType::f32);
        for (const float sign : {1.0f, -1.0f}) {
          for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = sign * 127;
          quantized_product({x, &m, y});
          const double exact = double(sign) * 127 * number * double(K);
          for (int64_t i = 0; i < y.numel(); ++i)
            ASSERT_NEAR(y.data<float>()[i], exact, std::abs(exact) * 2 * kF32) << name << " " << name_of(format);
        }
      }
    }
  });
}

// |y - x w| <= sum_k (|x_k| s_w/2 + |w_k| s_x/2 + s_x s_w/4) for weights rounded to 8 bits (spec hpc.int_matmul).
TEST(QuantizedProduct, StaysWithinTheBoundOfRounding) {
  const int64_t M = 3, N = 40, K = 300;
  const Tensor x = random_tensor({M, K}, DType::f32, 1), w = random_tensor({N, K}, DType::f32, 2);
  PackedMatrix m{PackedFormat::int8, N, K, 0, true, "w", {}, {}};
  QuantizedTensors t{empty({N, K}, DType::i8), empty({N}, DType::f32)};
  for (int64_t n = 0; n < N; ++n)
    t.scales.data<float>()[n] = ref::quantize_row(w.data<float>() + n * K, K, t.values.data<int8_t>() + n * K);
  pack(m, t);
  on_every_implementation_and_tiles([&](const std::string& name) {
    const Tensor y = empty({M, N}, DType::f32);
    quantized_product({x, &m, y});
    for (int64_t i = 0; i < M; ++i) {
      const double sx = rounded(x, i).step;
      for (int64_t n = 0; n < N; ++n) {
        const double sw = quantized_scale(m, n, 0);
        double exact = 0, bound = 0;
        for (int64_t k = 0; k < K; ++k) {
          const double a = value_at(x, i * K + k), b = value_at(w, n * K + k);
          exact += a * b;
          bound += std::abs(a) * sw / 2 + std::abs(b) * sx / 2 + sx * sw / 4;
        }
        ASSERT_NEAR(value_at(y, i * N + n), exact, bound * (1 + 1e-5)) << name;
      }
    }
  });
}

TEST(QuantizedProduct, RowsHaveTheSameBitsInAnyBatchAndWithAnyNumberOfThreads) {
  on_every_implementation_and_tiles([&](const std::string& name) {
    if (name == "ref") return;
    for (const Format& f : kFormats) {
      const int64_t M = 61, N = 150, K = inputs(f, 200);
      const PackedMatrix w = matrix(f, N, K);
      const Tensor x = random_tensor({M, K}, DType::f32, 3), all = empty({M, N}, DType::f32);
      {
        const WithThreads one(1);
        quantized_product({x, &w, all});
      }
      for (const int n : {1, 2, 5})
        for (const int64_t rows : {1, 2, 3, 7, 8, 14, 15, 40}) {
          const WithThreads more(n);
          for (const int64_t at : {int64_t(0), int64_t(9), M - rows}) {
            const Tensor some = empty({rows, N}, DType::f32);
            quantized_product({x.slice(at, at + rows), &w, some});
            expect_same_bits(some, all.slice(at, at + rows), cat(name, " ", rows, " rows from ", at));
          }
        }
    }
  });
}

TEST(QuantizedProduct, ManyRowsHaveTheBitsOfFew) {
  on_every_implementation_and_tiles([&](const std::string& name) {
    if (name == "ref") return;
    for (const Format& f : kFormats) {
      const int64_t M = 1030, N = 70, K = inputs(f, 96), few = 15;  // of many, each thread takes rows for itself
      const PackedMatrix w = matrix(f, N, K);
      const Tensor x = random_tensor({M, K}, DType::f32, 3), all = empty({M, N}, DType::f32);
      const WithThreads two(2);
      quantized_product({x, &w, all});
      for (const int64_t at : {int64_t(0), M / 2 - 7, M - few}) {
        const Tensor some = empty({few, N}, DType::f32);
        quantized_product({x.slice(at, at + few), &w, some});
        expect_same_bits(some, all.slice(at, at + few), cat(name, " from row ", at));
      }
    }
  });
}

TEST(QuantizedProduct, ProductsOfOneXHaveTheBitsThatTheyHaveAlone) {
  on_every_implementation_and_tiles([&](const std::string& name) {
    for (const Format& f : kFormats)
      for (const int64_t M : {1, 5, 40}) {
        const int64_t K = inputs(f, 100);
        const Tensor x = random_tensor({M, K}, DType::f32, 3), bias = random_tensor({33}, DType::f32, 4);
        const PackedMatrix w[] = {matrix(f, 33, K), matrix(f, 7, K), matrix(f, 257, K)};
        std::vector<QuantizedProductArgs> products;
        for (const PackedMatrix& m : w)
          products.push_back({x, &m, empty({M, m.outputs}, DType::f32), m.outputs == 33 ? bias : Tensor()});
        const WithThreads threads(3);
        quantized_products(products);
        for (const auto& [rows, m, y, b] : products) {
          const Tensor alone = empty(y.shape(), DType::f32);
          quantized_product({rows, m, alone, b});
          expect_same_bits(y, alone, cat(name, " ", name_of(f.format), " ", M, " rows, ", m->outputs, " outputs"));
        }
      }
  });
  const Tensor x = random_tensor({2, 100}, DType::f32, 3), y = empty({2, 7}, DType::f32);
  const PackedMatrix a = matrix(kFormats[0], 7, 100), b = matrix(kFormats[1], 7, 100);
  const QuantizedProductArgs unlike[] = {{x, &a, y}, {x, &b, empty_like(y)}}, twice[] = {{x, &a, y}, {x, &a, y}},
                             others[] = {{x, &a, y}, {clone(x), &a, empty_like(y)}};
  EXPECT_THROW(quantized_products(unlike), Error);
  EXPECT_THROW(quantized_products(twice), Error);
  EXPECT_THROW(quantized_products(others), Error);
}

TEST(QuantizedProduct, RowsThatAreNotFiniteGiveNaNAndTinyOnesZero) {
  on_every_implementation_and_tiles([&](const std::string& name) {
    for (const Format& f : kFormats) {
      const int64_t K = inputs(f, 40);
      const PackedMatrix w = matrix(f, 5, K);
      const Tensor x = random_tensor({5, K}, DType::f32, 3), y = empty({5, 5}, DType::f32);
      set_value(x, K - 1, std::numeric_limits<double>::quiet_NaN());
      set_value(x, K, -std::numeric_limits<double>::infinity());
      for (int64_t k = 0; k < K; ++k) set_value(x, 2 * K + k, 0), set_value(x, 3 * K + k, 0x1p-120);
      quantized_product({x, &w, y});
      for (int64_t i = 0; i < 25; ++i) {
        const double v = value_at(y, i);
        ASSERT_TRUE(i < 10 ? std::isnan(v) : i < 20 ? v == 0 : std::isfinite(v)) << name << " " << i << ": " << v;
      }
    }
  });
}

TEST(PackedGather, GivesTheRowsAsNumbers) {
  on_every_implementation([&](const std::string& name) {
    for (const Format& f : kFormats)
      for (const DType type : {DType::f32, DType::bf16}) {
        const int64_t K = inputs(f, 45);
        const PackedMatrix t = matrix(f, 70, K);
        const Tensor ids = random_ints({9}, 0, 70, 2), out = empty({9, K}, type);
        packed_gather({&t, ids, out, 1.5});
        for (int64_t i = 0; i < out.numel(); ++i) {
          const int64_t n = ids.data<int32_t>()[i / K], k = i % K;
          const double product = double(quantized_scale(t, n, k)) * quantized_value(t, n, k),
                       exact = 1.5 * (product - double(quantized_minimum(t, n, k)));
          ASSERT_NEAR(value_at(out, i), exact,
                      std::abs(exact) * (epsilon_of(type) + 3 * kF32) + std::abs(product) * 3 * kF32)
              << name;
        }
      }
  });
}

// As gather() of numbers does: where there is no row, as for a word without a tag.
TEST(PackedGather, GivesZerosForIdsBelowZero) {
  on_every_implementation([&](const std::string& name) {
    for (const Format& f : kFormats)
      for (const DType type : {DType::f32, DType::bf16}) {
        const int64_t K = inputs(f, 45);
        const PackedMatrix t = matrix(f, 70, K);
        const Tensor numbers = numbers_by_outputs(t, DType::f32);
        const Tensor ids = empty({3}, DType::i32), out = empty({3, K}, type);
        for (int64_t i = 0; i < 3; ++i) ids.data<int32_t>()[i] = i == 1 ? 69 : -1;
        packed_gather({&t, ids, out, 1.5});
        for (int64_t i = 0; i < out.numel(); ++i)
          ASSERT_EQ(value_at(out, i) == 0, i / K != 1 || value_at(numbers, 69 * K + i % K) == 0) << name;
      }
  });
}

TEST(PackedGather, GivesTheNumbersOfAPackedTable) {
  on_every_implementation([&](const std::string& name) {
    for (const DType type : {DType::f32, DType::bf16}) {
      PackedMatrix t{type == DType::f32 ? PackedFormat::f32 : PackedFormat::bf16, 70, 45, 0, true, "w", {}, {}};
      const Tensor numbers = random_tensor({70, 45}, type, 3);
      allocate(t, Device::cpu);
      pack_rows(t, 0, numbers);
      const Tensor ids = random_ints({9}, 0, 70, 2), out = empty({9, 45}, type);
      packed_gather({&t, ids, out, 0.5});
      for (int64_t i = 0; i < out.numel(); ++i)
        ASSERT_EQ(value_at(out, i), 0.5 * value_at(numbers, ids.data<int32_t>()[i / 45] * 45 + i % 45)) << name;
    }
  });
}

TEST(PackedMatrix, PiecesPackAsTheWhole) {
  for (const Format& f : kFormats) {
    const int64_t N = 77, K = in_blocks(f.format) ? block_format(f.format).inputs : 50;
    PackedMatrix whole{f.format, N, K, f.group, true, "w", {}, {}}, m = whole;
    const QuantizedTensors t = random_weights(whole, 3);
    const auto rows = [&](int64_t begin, int64_t end) {
      return QuantizedTensors{t.values.slice(begin, end), t.scales ? t.scales.slice(begin, end) : Tensor()};
    };
    pack(whole, t);
    allocate(m, Device::cpu);
    for (const auto& [begin, end] : {std::pair(32, 64), {64, 77}, {0, 32}}) pack_rows(m, begin, rows(begin, end));
    EXPECT_EQ(std::memcmp(m.data.raw(), whole.data.raw(), size_t(m.data.bytes())), 0) << name_of(f.format);
    if (m.scales) expect_same_bits(m.scales, whole.scales, "scales");
    const std::string error = kit::error_of([&] { pack_rows(m, 32, rows(32, 76)); });
    EXPECT_NE(error.find("44 outputs from 32 on are no whole panels of 32 of the 77 outputs"), std::string::npos)
        << error;
  }
}

TEST(PackedMatrix, PackingKeepsEveryNumberOfABlock) {
  for (const Format& f : kFormats) {
    if (!in_blocks(f.format)) continue;
    const BlockFormat b = block_format(f.format);
    PackedMatrix m{f.format, 45, 2 * b.inputs, f.group, false, "w", {}, {}};
    const QuantizedTensors t = random_weights(m, 1);
    pack(m, t);
    const Tensor numbers = numbers_by_outputs(m, DType::f32), turned = unpacked(m);
    std::vector<float> want(static_cast<size_t>(b.inputs));
    for (int64_t n = 0; n < 45; ++n)
      for (int64_t at = 0; at < 2; ++at) {
        IntegerBlock block;
        read_block(f.format, t.values.data<uint8_t>() + (n * 2 + at) * b.bytes, block);
        numbers_of_block(f.format, block, want.data());
        for (int64_t k = 0; k < b.inputs; ++k) {
          ASSERT_EQ(value_at(numbers, n * m.inputs + at * b.inputs + k), want[size_t(k)]) << name_of(f.format) << k;
          ASSERT_EQ(value_at(turned, (at * b.inputs + k) * 45 + n), want[size_t(k)]) << name_of(f.format) << k;
        }
      }
    // A scale that is no number, and inputs that fill no block.
    t.values.data<uint8_t>()[f.format == PackedFormat::q6_k ? 209 : 1] = 0x7c;
    EXPECT_NE(kit::error_of([&] { pack(m, t); }).find("the scale of a block is not finite"), std::string::npos);
    m.inputs += 16;
    EXPECT_NE(kit::error_of([&] { pack(m, t); }).find("do not fill blocks"), std::string::npos);
  }
}

TEST(PackedMatrix, PackingKeepsEveryValue) {
  for (const Format& f : kFormats) {
    if (in_blocks(f.format)) continue;
    PackedMatrix m{f.format, 45, 70, f.group, false, "w", {}, {}};
    const QuantizedTensors t = random_weights(m, 1);
    pack(m, t);
    EXPECT_EQ(m.shape(), (Shape{70, 45}));
    for (int64_t n = 0; n < 45; ++n)
      for (int64_t k = 0; k < 70; ++k) {
        const int want =
            f.group ? (t.values.data<uint8_t>()[n * m.groups() * f.group / 2 + k / 2] >> (k % 2 ? 4 : 0) & 15) - 8
                    : t.values.data<int8_t>()[n * 70 + k];
        ASSERT_EQ(quantized_value(m, n, k), want);
        ASSERT_EQ(quantized_scale(m, n, k), value_at(t.scales, f.group ? n * m.groups() + k / f.group : n));
      }
  }
}

TEST(QuantizedProduct, MetaBooksTheWorkspaceAndTheCostOfARealRun) {
  for (const Format& f : kFormats) {
    int64_t peak[2];
    for (const Device device : {Device::cpu, Device::meta}) {
      const int64_t K = inputs(f, 100);
      PackedMatrix w{f.format, 60, K, f.group, true, "w", {}, {}};
      pack(w, device == Device::meta ? QuantizedTensors{} : random_weights(w, 1));
      const Tensor x = zeros({4, K}, DType::f32, device), y = zeros({4, 60}, DType::f32, device);
      CostMeter meter;
      ledger(device).reset_peak();
      const int64_t before = ledger(device).current();
      quantized_product({x, &w, y});
      peak[int(device)] = ledger(device).peak() - before;
      if (device == Device::meta) {
        EXPECT_EQ(meter.total().flops, 2.0 * 4 * 60 * double(K));
        EXPECT_EQ(meter.total().bytes, 4 * (double(K) + 60) * 4 + double(w.bytes()));
      }
    }
    EXPECT_EQ(peak[0], peak[1]);
  }
}

TEST(QuantizedProduct, ErrorsNameTheOperands) {
  const PackedMatrix w = matrix(kFormats[0], 6, 4);
  const Tensor x = zeros({2, 5}, DType::f32), y = zeros({2, 6}, DType::f32), d = zeros({2, 4}, DType::f64);
  EXPECT_EQ(kit::error_of([&] {
              quantized_product({x, &w, y});
            }),
            "quantized_product: x must be [M,4] and y [M,6] for the weights 'w', got f32[2,5] and f32[2,6]");
  EXPECT_EQ(
      kit::error_of([&] {
        quantized_product({d, &w, zeros({2, 6}, DType::f64)});
      }),
      "quantized_product: types must be f32 -> f32 or bf16 -> bf16 or f32, got f64 -> f64; integer weights have no "
      "f64 products");
  PackedMatrix bad{PackedFormat::int4, 6, 4, 16, true, "w", {}, {}};
  EXPECT_EQ(kit::error_of([&] { pack(bad, {}); }),
            "packed matrix: 'w': the group size must be 32 or 64 for int4 weights and 0 for int8, got 16 for int4");
  bad.group = 32;
  EXPECT_EQ(kit::error_of([&] {
              pack(bad, {zeros({6, 15}, DType::u8), zeros({6, 1}, DType::bf16)});
            }),
            "packed matrix: 'w': the values must be u8[6,16] for int4 weights [6,4], got u8[6,15]");
  PackedMatrix low{PackedFormat::int8, 1, 2, 0, true, "w", {}, {}};
  QuantizedTensors t{zeros({1, 2}, DType::i8), zeros({1}, DType::f32)};
  t.values.data<int8_t>()[1] = -128;
  EXPECT_EQ(kit::error_of([&] { pack(low, t); }),
            "packed matrix: 'w': value 1 is -128, outside [-127, 127]; the file is damaged");
}

}  // namespace
}  // namespace lithe::kernels
