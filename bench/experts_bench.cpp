// Products of experts: rows sorted by expert, each group times the matrix of its expert, against one product of all
// rows by one matrix, forward and the matrices' gradients. Loads are uneven, the fullest expert has three times the
// rows of the emptiest. Cases take turns, round after round; medians are printed. The speed of whole layers:
// docs/performance.md, Experts.
//   experts_bench [rounds]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lithe/base/machine.h"
#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/gemm/grouped_gemm.h"

namespace {

using namespace lithe;
using namespace lithe::bench;

Tensor numbers(Shape shape, DType dtype) {
  const Tensor x = empty(shape, dtype);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, double((i * 2654435761u) % 4096) / 4096 - 0.5);
  return x;
}

struct Case {
  DType type;
  int64_t rows, experts, K, N;
  Tensor x, y, dy, one_weight, one_gradient;
  std::vector<Tensor> weights, gradients;
  std::vector<int64_t> offsets{0};
  std::vector<double> grouped, one, grouped_gradient, one_gradient_times;

  Case(DType type, int64_t rows, int64_t experts, int64_t K, int64_t N)
      : type(type), rows(rows), experts(experts), K(K), N(N) {
    x = numbers({rows, K}, type), dy = numbers({rows, N}, type), y = empty({rows, N}, type);
    one_weight = numbers({K, N}, type), one_gradient = empty({K, N}, DType::f32);
    for (int64_t e = 0; e < experts; ++e) {
      weights.push_back(numbers({K, N}, type));
      gradients.push_back(empty({K, N}, DType::f32));
      // Loads of 2, 3, ... 6 parts.
      offsets.push_back(offsets.back() + rows * (2 * (experts - 1) + 4 * e) / (4 * experts * (experts - 1)));
    }
    offsets.back() = rows;
  }

  void run() {
    grouped.push_back(
        seconds([&] { kernels::grouped_gemm({.a = x, .c = y, .b = weights, .bias = {}, .offsets = offsets}); }));
    one.push_back(seconds([&] { kernels::gemm({.a = x, .b = one_weight, .c = y}); }));
    grouped_gradient.push_back(seconds([&] {
      kernels::grouped_grad(
          {.a = x, .b = dy, .c = gradients, .accumulate = std::vector<bool>(size_t(experts)), .offsets = offsets});
    }));
    one_gradient_times.push_back(
        seconds([&] { kernels::gemm({.a = x, .b = dy, .c = one_gradient, .transpose_a = true}); }));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t experts : {8, 64}) {
      cases.emplace_back(type, 4096, experts, 512, 1024);
      cases.emplace_back(type, 4096, experts, 768, 1536);
    }
  for (Case& c : cases)
    c.run(), c.grouped.clear(), c.one.clear(), c.grouped_gradient.clear(), c.one_gradient_times.clear();
  for (int round = 0; round < rounds; ++round)
    for (Case& c : cases) c.run();
  std::printf("%d threads, %s; GFLOP/s of groups, of one product, and the share\n", threads(),
              kernels::name_of(kernels::usable_isa()));
  std::printf("%-5s %6s %8s %5s %5s %10s %8s %6s %12s %8s %6s\n", "dtype", "rows", "experts", "K", "N", "groups", "one",
              "share", "gradients", "one", "share");
  for (const Case& c : cases) {
    const double work = 2e-9 * double(c.rows) * double(c.K) * double(c.N);
    const double a = median(c.grouped), b = median(c.one), d = median(c.grouped_gradient),
                 e = median(c.one_gradient_times);
    std::printf("%-5s %6ld %8ld %5ld %5ld %10.1f %8.1f %5.0f%% %12.1f %8.1f %5.0f%%\n", name_of(c.type), long(c.rows),
                long(c.experts), long(c.K), long(c.N), work / a, work / b, 100 * b / a, work / d, work / e,
                100 * e / d);
  }
  return 0;
}
