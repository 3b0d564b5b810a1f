#include "lithe/kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/random.h"

namespace lithe::kernels {
namespace {

Tensor random(Shape shape, DType dtype, uint64_t seed) {
  const Tensor x = empty(shape, dtype);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, random_normal({.seed = seed}, uint64_t(i)));
  return x;
}

struct Case {
  DType input, output;
  int64_t M, N, K;
  bool transpose_a, transpose_b, accumulate, bias, rowwise = false;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.input << "->" << c.output << " M " << c.M << " N " << c.N << " K " << c.K << (c.transpose_a ? " transpose_a" : "")
             << (c.transpose_b ? " transpose_b" : "") << (c.accumulate ? " accumulate" : "") << (c.bias ? " bias" : "")
             << (c.rowwise ? " rowwise" : "");
}

GemmArgs make(const Case& c, uint64_t seed = 1) {
  GemmArgs args;
  args.a = random(c.transpose_a ? Shape{c.K, c.M} : Shape{c.M, c.K}, c.input, seed);
  args.b = random(c.transpose_b ? Shape{c.N, c.K} : Shape{c.K, c.N}, c.input, seed + 1);
  args.c = random({c.M, c.N}, c.output, seed + 2);
  if (c.bias) args.bias = random({c.N}, c.input == DType::f64 ? DType::f64 : DType::f32, seed + 3);
  args.transpose_a = c.transpose_a;
  args.transpose_b = c.transpose_b;
  args.accumulate = c.accumulate;
  args.rowwise = c.rowwise;
  return args;
}

// The exact sum in double, and a bound of the error of any order of summation with f32 partial sums:
// |error| <= (K+2) eps (sum |a||b| + |c| + |bias|), plus the rounding of the result.
void expect_right(const Case& c) {
  SCOPED_TRACE(testing::Message() << c);
  const GemmArgs args = make(c);
  const Tensor before = clone(args.c);
  gemm(args);
  const double sum_epsilon = c.input == DType::f64 ? 0x1p-53 : 0x1p-24;
  for (int64_t m = 0; m < c.M; ++m)
    for (int64_t n = 0; n < c.N; ++n) {
      double sum = 0, size = 0;
      const auto add = [&](double term) { sum += term, size += std::abs(term); };
      for (int64_t k = 0; k < c.K; ++k)
        add(value_at(args.a, c.transpose_a ? k * c.M + m : m * c.K + k) * value_at(args.b, c.transpose_b ? n * c.K + k : k * c.N + n));
      if (c.bias) add(value_at(args.bias, n));
      if (c.accumulate) add(value_at(before, m * c.N + n));
      const double bound = double(c.K + 2) * sum_epsilon * size * 1.01 + epsilon_of(c.output) * std::abs(sum) * 1.01;
      const double got = value_at(args.c, m * c.N + n);
      ASSERT_NEAR(got, sum, bound) << "at [" << m << "," << n << "]";
    }
}

TEST(Gemm, AgreesWithTheExactSum) {
  for (const auto& [input, output] : {std::pair{DType::f64, DType::f64}, {DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}})
    for (int flags = 0; flags < 16; ++flags)
      for (const auto& [M, N, K] : {std::array<int64_t, 3>{1, 1, 1}, {2, 3, 17}, {17, 33, 100}, {33, 17, 3}, {100, 64, 33}, {3, 100, 65}})
        expect_right({input, output, M, N, K, bool(flags & 1), bool(flags & 2), bool(flags & 4), bool(flags & 8)});
}

}  // namespace
}  // namespace lithe::kernels
