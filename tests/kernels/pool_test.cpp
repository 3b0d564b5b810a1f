#include "lithe/kernels/pool/pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

struct Places {
  std::vector<int64_t> offsets, from;
};
// Sequences of one to eleven rows: in the order of x, and as places that overlap, repeat rows, and leave some out.
const Places kPlaces[] = {{{0, 4, 5, 16, 19}, {}},
                          {{0, 3, 4, 13, 15}, {2, 0, 5, 18, 1, 2, 3, 4, 5, 5, 9, 10, 2, 7, 18}}};

TEST(PoolKernel, EveryImplementationEqualsTheSpecification) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t cols : kOddSizes)
      for (const Places& places : kPlaces)
        for (const Pooling kind : {Pooling::mean, Pooling::max}) {
          const Tensor x = random_tensor({19, cols}, type, 1), dout = random_tensor({4, cols}, type, 2);
          set_value(x, 3 * cols, NAN);
          Tensor expected, expected_rows, expected_dx;
          on_every_implementation([&](const std::string& name) {
            const std::string where = cat(name, " ", type, " ", cols, " ", int(kind), " ", places.from.size());
            const Tensor out = empty({4, cols}, type);
            const Tensor rows = kind == Pooling::max ? empty({4, cols}, DType::i32) : Tensor();
            pool({.x = x, .out = out, .rows = rows, .offsets = places.offsets, .kind = kind, .from = places.from});
            const Tensor dx = clone(x);
            set_value(dx, 3 * cols, 1);
            for (const bool accumulate : {false, true})
              pool_grad({.dout = dout,
                         .rows = rows,
                         .dx = dx,
                         .offsets = places.offsets,
                         .kind = kind,
                         .accumulate = accumulate,
                         .from = places.from});
            if (!expected) return void((expected = out, expected_rows = rows, expected_dx = dx));
            const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
            for (int64_t i = 0; i < out.numel(); ++i)
              EXPECT_TRUE(same(value_at(out, i), value_at(expected, i)) &&
                          (!rows || value_at(rows, i) == value_at(expected_rows, i)))
                  << where << " " << i;
            // Two passes, at most five terms each, in f32 for a sum in double; then each is rounded to the type.
            const double eps = type == DType::bf16 ? 0x1p-8 : kF32;
            for (int64_t i = 0; i < dx.numel(); ++i)
              EXPECT_NEAR(value_at(dx, i), value_at(expected_dx, i),
                          2 * (eps + 5 * kF32) * (8 + std::abs(value_at(expected_dx, i))))
                  << where << " " << i;
          });
        }
}

TEST(PoolKernel, ThreadsDoNotChangeBits) {
  const int64_t N = 3000, C = 65;
  const Tensor x = random_tensor({N, C}, DType::f32, 3), dout = random_tensor({N / 2, C}, DType::f32, 4);
  std::vector<int64_t> offsets{0}, from;
  for (int64_t b = 0; b < N / 2; ++b) {
    for (int64_t i = 0; i < 3; ++i) from.push_back((2 * b + i * i) % N);
    offsets.push_back(int64_t(from.size()));
  }
  Tensor first, first_dx;
  for (const int n : {1, 2, 3}) {
    const WithThreads with(n);
    const Tensor out = empty({N / 2, C}, DType::f32), rows = empty({N / 2, C}, DType::i32),
                 dx = empty({N, C}, DType::f32);
    pool({.x = x, .out = out, .rows = rows, .offsets = offsets, .kind = Pooling::max, .from = from});
    pool_grad({.dout = dout, .rows = rows, .dx = dx, .offsets = offsets, .kind = Pooling::max, .from = from});
    if (!first) first = out, first_dx = dx;
    expect_same_bits(out, first, cat(n));
    expect_same_bits(dx, first_dx, cat(n));
  }
}

TEST(PoolKernel, RowsThatAreNotThereAreRefused) {
  const Tensor x = random_tensor({3, 2}, DType::f32, 5), out = empty({1, 2}, DType::f32),
               rows = empty({1, 2}, DType::i32);
  const std::vector<int64_t> offsets{0, 2}, from{1, 3};
  EXPECT_THROW(pool({.x = x, .out = out, .rows = rows, .offsets = offsets, .kind = Pooling::max, .from = from}), Error);
}

}  // namespace
}  // namespace lithe::kernels
