#include "lithe/kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"
#include "tests/support/numbers.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

Tensor rotated(const Tensor& x, const Tensor& positions, int64_t head_dim, bool interleaved = false,
               bool inverse = false) {
  const Tensor out = empty_like(x);
  rope({.x = x,
        .positions = positions,
        .out = out,
        .head_dim = head_dim,
        .interleaved = interleaved,
        .inverse = inverse});
  return out;
}

double dot(const Tensor& a, const Tensor& b, int64_t begin, int64_t count) {
  double sum = 0;
  for (int64_t i = begin; i < begin + count; ++i) sum += at(a, i) * at(b, i);
  return sum;
}

// Each element is u cos - v sin: one rounding of the sine and cosine (within 2 units of f32), and of the sum.
TEST(Rope, EveryImplementationAgreesWithTheFormula) {
  for (const DType type : kTypes)
    for (const bool interleaved : {false, true})
      for (const bool inverse : {false, true})
        for (const bool accumulate : {false, true})
          for (const int64_t head_dim :
               {int64_t(2), int64_t(6), int64_t(34), int64_t(64), int64_t(130), int64_t(1200)}) {
            const int64_t N = 6, heads = head_dim > 100 ? 1 : 3, C = heads * head_dim;
            const Tensor x = random_tensor({N, C}, type, 1), old = random_tensor({N, C}, type, 2);
            const Tensor positions = kit::ids_of({0, 1, 7, 511, 131071, 2000000});
            const Tensor exact = empty({N, C}, DType::f64), size = empty({N, C}, DType::f64);
            for (int64_t n = 0; n < N; ++n)
              for (int64_t head = 0; head < heads; ++head)
                for (int64_t c = 0; c < head_dim / 2; ++c) {
                  const int64_t start = n * C + head * head_dim, i = start + (interleaved ? 2 * c : c),
                                j = interleaved ? i + 1 : i + head_dim / 2;
                  const double t =
                      (inverse ? -1 : 1) * at(positions, n) * std::pow(10000.0, -2.0 * double(c) / double(head_dim));
                  set_value(exact, i, at(x, i) * std::cos(t) - at(x, j) * std::sin(t) + (accumulate ? at(old, i) : 0));
                  set_value(exact, j, at(x, i) * std::sin(t) + at(x, j) * std::cos(t) + (accumulate ? at(old, j) : 0));
                  for (const int64_t k : {i, j})
                    set_value(size, k,
                              std::abs(at(x, i)) + std::abs(at(x, j)) + (accumulate ? std::abs(at(old, k)) : 0));
                }
            on_every_implementation([&](const std::string& isa) {
              const std::string what =
                  cat(isa, " ", type, " head ", head_dim, interleaved ? " interleaved" : "", inverse ? " inverse" : "");
              const Guarded out(accumulate ? old : x);
              rope({accumulate ? x : out.tensor(), positions, out.tensor(), head_dim, 10000, interleaved, inverse,
                    accumulate});
              // An angle of 2e6 is itself rounded to 2e6 eps in f64.
              expect_close(
                  out.tensor(), exact,
                  [&](int64_t i) {
                    return epsilon_of(type) * std::abs(at(exact, i)) +
                           (4 * arithmetic(type) + 4e6 * 0x1p-53) * at(size, i);
                  },
                  what);
              out.expect_untouched(what);
            });
          }
}

// The first channels turn as a head of their own would, the others are copied, or added.
TEST(Rope, PartsOfHeadsTurnAlone) {
  for (const DType type : kTypes)
    for (const bool interleaved : {false, true})
      for (const bool accumulate : {false, true})
        for (const int64_t head_dim : {int64_t(7), int64_t(64), int64_t(80)}) {
          const int64_t rotary_dim = head_dim / 4 / 2 * 2 + 2, heads = 3, N = 5;
          const Tensor x = random_tensor({N, heads * head_dim}, type, 1),
                       old = random_tensor({N, heads * head_dim}, type, 2);
          const Tensor positions = kit::ids_of({0, 1, 7, 511, 131071});
          Tensor alone = empty({N, heads * rotary_dim}, type), before = empty_like(alone);
          for (int64_t n = 0; n < N; ++n)
            for (int64_t i = 0; i < heads * rotary_dim; ++i) {
              const int64_t from = n * heads * head_dim + i / rotary_dim * head_dim + i % rotary_dim;
              set_value(alone, n * heads * rotary_dim + i, at(x, from));
              set_value(before, n * heads * rotary_dim + i, at(old, from));
            }
          on_every_implementation([&](const std::string& isa) {
            const Tensor want = clone(accumulate ? before : alone);
            rope({accumulate ? alone : want, positions, want, rotary_dim, 10000, interleaved, false, accumulate});
            const Tensor exact = empty({N, heads * head_dim}, DType::f64);
            for (int64_t n = 0; n < N; ++n)
              for (int64_t i = 0; i < heads * head_dim; ++i) {
                const int64_t c = i % head_dim, to = n * heads * head_dim + i;
                set_value(exact, to,
                          c < rotary_dim ? at(want, n * heads * rotary_dim + i / head_dim * rotary_dim + c)
                                         : at(x, to) + (accumulate ? at(old, to) : 0));
              }
            const Guarded out(accumulate ? old : x);
            rope({.x = x,
                  .positions = positions,
                  .out = out.tensor(),
                  .head_dim = head_dim,
                  .interleaved = interleaved,
                  .accumulate = accumulate,
                  .rotary_dim = rotary_dim});
            expect_close(
                out.tensor(), exact, [&](int64_t i) { return epsilon_of(type) * std::abs(at(exact, i)); },
                cat(isa, " ", type, " head ", head_dim));
            out.expect_untouched(isa);
          });
        }
}

// oracle: pos.rope
TEST(Rope, KeepsNormsAndPositionZero) {
  const Tensor x = random_tensor({3, 16}, DType::f64, 3);
  for (const bool interleaved : {false, true}) {
    const Tensor y = rotated(x, kit::ids_of({0, 5, 1000}), 8, interleaved);
    expect_same_bits(y.slice(0, 1), x.slice(0, 1), "position 0");
    for (int64_t head = 0; head < 6; ++head) EXPECT_NEAR(dot(y, y, head * 8, 8), dot(x, x, head * 8, 8), 1e-13);
  }
}

// oracle: pos.rope
TEST(Rope, ProductsDependOnTheDistanceOnly) {
  const Tensor q = random_tensor({1, 32}, DType::f64, 4), k = random_tensor({1, 32}, DType::f64, 5);
  for (const bool interleaved : {false, true}) {
    const auto product = [&](int32_t i, int32_t j) {
      return dot(rotated(q, kit::ids_of({i}), 32, interleaved), rotated(k, kit::ids_of({j}), 32, interleaved), 0, 32);
    };
    EXPECT_NEAR(product(9, 4), product(105, 100), 1e-12);
    EXPECT_NEAR(product(3, 3), product(0, 0), 1e-12);
    EXPECT_GT(std::abs(product(9, 4) - product(4, 9)), 1e-3);  // and it does depend on it
  }
}

// oracle: pos.rope
TEST(Rope, LayoutsDifferByAPermutationOfChannels) {
  const int64_t d = 12;
  const Tensor x = random_tensor({4, d}, DType::f64, 6), permuted = empty_like(x),
               positions = kit::ids_of({0, 1, 2, 77});
  const auto to_pairs = [&](const Tensor& from, const Tensor& to) {
    for (int64_t n = 0; n < 4; ++n)
      for (int64_t c = 0; c < d / 2; ++c) {
        set_value(to, n * d + 2 * c, at(from, n * d + c));
        set_value(to, n * d + 2 * c + 1, at(from, n * d + d / 2 + c));
      }
  };
  to_pairs(x, permuted);
  const Tensor expected = empty_like(x);
  to_pairs(rotated(x, positions, d), expected);
  expect_same_bits(rotated(permuted, positions, d, true), expected, "interleaved");
}

TEST(Rope, InverseUndoesAndIsTheGradient) {
  const Tensor x = random_tensor({3, 16}, DType::f64, 7), dy = random_tensor({3, 16}, DType::f64, 8),
               positions = kit::ids_of({2, 30, 400});
  for (const bool interleaved : {false, true}) {
    expect_close(rotated(rotated(x, positions, 8, interleaved), positions, 8, interleaved, true), x, 1e-14, "inverse");
    expect_gradient(
        rotated(dy, positions, 8, interleaved, true), x,
        [&] { return dot(rotated(x, positions, 8, interleaved), dy, 0, 48); }, "gradient");
  }
}

TEST(Rope, RowsDoNotDependOnTheBatchNorOnThreads) {
  const int64_t N = 400, C = 192;
  const Tensor positions = random_ints({N}, 0, 5000, 9);
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor x = random_tensor({N, C}, type, 10), y = rotated(x, positions, 64);
    const WithThreads with(3);
    expect_same_bits(rotated(x, positions, 64), y, "three threads");
    for (const int64_t n : {int64_t(0), int64_t(201), N - 1})
      expect_same_bits(rotated(x.slice(n, n + 1), positions.slice(n, n + 1), 64), y.slice(n, n + 1), cat("row ", n));
  }
}

TEST(Rope, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({2, 6}, DType::f32);
  try {
    rope({.x = x, .positions = kit::ids_of({0, 1}), .out = x, .head_dim = 3});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "rope: head_dim must be even and divide the 6 columns of x [2,6], got 3");
  }
}

}  // namespace
}  // namespace lithe::kernels
