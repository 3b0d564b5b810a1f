// An experiment: products of f32 through products of bf16, which matrix tiles make much faster. Each number is the sum
// of two or three bf16 numbers, and the product of two numbers that of their largest parts:
//   3 products of 2 parts: a1 b1 + a1 b2 + a2 b1;  6 products of 3 parts: also a2 b2 + a1 b3 + a3 b1
// Both are one product with 3 or 6 times as many k: rows [a1 a1 a2] by columns [b1 b2 b1]. The first rate is
// that of the product alone, the second has the splitting of the rows a in it, in plain code; weights are split before.
// Errors are those of the worst of 256 elements against f64, relative to the sum of |a| |b|, in units of 2^-24.
//   split_bench [rounds]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/kernels/gemm/gemm.h"

namespace {

using namespace lithe;
using namespace lithe::bench;

Tensor filled(Shape shape) {
  const Tensor x = empty(shape, DType::f32);
  uint32_t state = 12345;
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = float((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f - 0.5f;
  return x;
}

// Which parts of a and b meet, a product each.
struct Scheme {
  const char* name;
  std::vector<int> a, b;
};
const Scheme kSchemes[] = {
    {"bf16", {0}, {0}}, {"3 products", {0, 0, 1}, {0, 1, 0}}, {"6 products", {0, 0, 1, 1, 0, 2}, {0, 1, 0, 1, 2, 0}}};

// Part `part` of x: what the parts before it leave.
bf16 part_of(float x, int part) {
  for (int i = 0; i < part; ++i) x -= float(bf16(x));
  return bf16(x);
}

// The rows [r, k] of x in parts, [r, parts of k].
void split(const Tensor& x, const std::vector<int>& parts, const Tensor& to) {
  const int64_t K = x.cols(), count = int64_t(parts.size());
  parallel_for(x.rows(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t i = 0; i < count; ++i) {
        const float* from = x.data<float>() + r * K;
        bf16* row = to.data<bf16>() + (r * count + i) * K;
        const int part = parts[size_t(i)];
        for (int64_t k = 0; k < K; ++k) row[k] = part_of(from[k], part);
      }
  });
}

double worst(const Tensor& a, const Tensor& b, const Tensor& c) {
  const int64_t K = a.cols();
  double most = 0;
  for (int64_t i = 0; i < 256; ++i) {
    const int64_t m = i * 7919 % c.rows(), n = i * 104729 % c.cols();
    double sum = 0, size = 0;
    for (int64_t k = 0; k < K; ++k) {
      const double term = double(a.data<float>()[m * K + k]) * double(b.data<float>()[n * K + k]);
      sum += term, size += std::fabs(term);
    }
    most = std::max(most, std::fabs(double(c.data<float>()[m * c.cols() + n]) - sum) / size);
  }
  return most * 0x1p24;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  std::printf("%d threads, %s\n%6s %6s %6s  %-12s %10s %10s %12s\n", threads(), kernels::name_of(kernels::usable_isa()),
              "M", "K", "N", "", "GFLOP/s", "and split", "worst error");
  for (const auto [M, K, N] : {std::array<int64_t, 3>{2048, 768, 768}, {2048, 768, 3072}, {2048, 3072, 768}}) {
    const Tensor a = filled({M, K}), b = filled({N, K}), c = empty({M, N}, DType::f32);
    struct Way {
      const char* name;
      std::vector<double> seconds, with_split;
      double error = 0;
    };
    std::vector<Way> ways{{"f32", {}, {}, 0}};
    std::vector<Tensor> rows, weights;
    for (const Scheme& scheme : kSchemes) {
      ways.push_back({scheme.name, {}, {}, 0});
      rows.push_back(empty({M, int64_t(scheme.a.size()) * K}, DType::bf16));
      weights.push_back(empty({N, int64_t(scheme.b.size()) * K}, DType::bf16));
      split(b, scheme.b, weights.back());
    }
    for (int round = -1; round < rounds; ++round)
      for (size_t w = 0; w < ways.size(); ++w) {
        const double begin = now();
        if (w) split(a, kSchemes[w - 1].a, rows[w - 1]);
        const double ready = now();
        kernels::gemm({.a = w ? rows[w - 1] : a, .b = w ? weights[w - 1] : b, .c = c, .transpose_b = true});
        const double end = now();
        if (round < 0)
          ways[w].error = worst(a, b, c);
        else
          ways[w].seconds.push_back(end - ready), ways[w].with_split.push_back(end - begin);
      }
    const double work = 2e-9 * double(M) * double(K) * double(N);
    for (const Way& way : ways)
      std::printf("%6ld %6ld %6ld  %-12s %10.1f %10.1f %12.2f\n", long(M), long(K), long(N), way.name,
                  work / median(way.seconds), work / median(way.with_split), way.error);
  }
  return 0;
}
