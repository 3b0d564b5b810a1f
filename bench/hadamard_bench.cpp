// The Hadamard output projection, forward and backward: GB/s beside a copy of as many bytes measured in the same round,
// and time beside the dense projection that it replaces.
//   hadamard_bench [rounds] [part of "f32 1024"]
// bytes: each operand once (2 rows forward; 3 backward, with the sums for alpha and beta). "of copy": the median over
// rounds of transform / copy, and its 10 % and 90 % quantiles; the copy stores normally. "dense": time of the matrix
// products (forward one, backward two) over that of the transform, median.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>

#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/hadamard/hadamard.h"

namespace {

using namespace lithe;  // a program, not a library
using namespace lithe::bench;
using namespace lithe::kernels;

constexpr int64_t kRows = 4096;

Tensor filled(Shape shape, DType type) {
  const Tensor x = empty(shape, type);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, double((i * 7919) % 2001) / 1000 - 1);
  return x;
}

// Adding a number keeps the compiler from calling memcpy, which stores around the caches.
__attribute__((target_clones("default", "avx2", "avx512f"))) void copy_part(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] + 1.0f;
}
void copy(const Tensor& from, const Tensor& to) {
  const auto* a = static_cast<const float*>(from.raw());
  auto* b = static_cast<float*>(to.raw());
  parallel_for(int64_t(from.bytes()) / 4, 1024,
               [&](int64_t begin, int64_t end, int) { copy_part(a + begin, b + begin, end - begin); });
}

struct Pass {
  const char* name;
  double bytes;
  std::function<void()> run, dense;
  std::vector<double> rate, of_copy, dense_ratio;
};

void measure(int64_t d, DType type, int rounds) {
  const Tensor x = filled({kRows, d}, type), dout = filled({kRows, d}, type), y = empty_like(x), dx = empty_like(x);
  const Tensor alpha = filled({d}, DType::f32), beta = filled({d}, DType::f32), dalpha = zeros({d}, DType::f32),
               dbeta = zeros({d}, DType::f32), weight = filled({d, d}, type), dweight = zeros({d, d}, DType::f32);
  const double scale = 1 / std::sqrt(double(d)), row = double(x.bytes());
  Pass passes[] = {{"forward", 2 * row,
                    [&] {
                      hadamard({x, alpha, beta, y, d, scale});
                    },
                    [&] { gemm({.a = x, .b = weight, .c = y, .bias = beta}); }},
                   {"backward", 3 * row,
                    [&] {
                      hadamard_grad({x, alpha, dout, dx, dalpha, dbeta, d, scale});
                    },
                    [&] {
                      gemm({.a = dout, .b = weight, .c = dx, .transpose_b = true});
                      gemm({.a = x, .b = dout, .c = dweight, .transpose_a = true, .accumulate = true});
                    }}};
  for (Pass& p : passes) {
    p.run();
    p.dense();
  }
  for (int round = 0; round < rounds; ++round)
    for (Pass& p : passes) {
      const double before = seconds([&] { copy(x, y); }), own = std::min(seconds(p.run), seconds(p.run)),
                   after = seconds([&] { copy(x, y); });
      const double copied = 2 * row / std::min(before, after);
      p.rate.push_back(p.bytes / own / 1e9);
      p.of_copy.push_back(p.bytes / own / copied);
      if (round < 3) p.dense_ratio.push_back(seconds(p.dense) / own);
    }
  for (const Pass& p : passes)
    std::printf("%-5s %5ld  %-8s %8.1f   %5.2f (%.2f-%.2f) %8.1f\n", cat(type).c_str(), long(d), p.name,
                quantile(p.rate, 0.5), quantile(p.of_copy, 0.5), quantile(p.of_copy, 0.1), quantile(p.of_copy, 0.9),
                quantile(p.dense_ratio, 0.5));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const std::string filter = argc > 2 ? argv[2] : "";
  std::printf("%ld rows, %d threads, %s\n", long(kRows), threads(), name_of(usable_isa()));
  std::printf("%-5s %5s  %-8s %8s   %-17s %8s\n", "type", "d", "pass", "GB/s", "of copy (spread)", "dense");
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t d : {512, 768, 1024, 1536, 2048, 4096})
      if (cat(type, " ", d).find(filter) != std::string::npos) measure(d, type, rounds);
}
