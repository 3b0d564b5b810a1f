// Matrix products: GFLOP/s against a measured peak of multiply-adds, and with few rows GB/s of weights
// against a measured read bandwidth; beside them oneDNN on the same operands, if libdnnl-dev was there when CMake ran,
// with lithe's instruction set. Probes and cases take turns, round after round; medians are printed.
//   gemm_bench [rounds] [f32|bf16]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/onednn.h"
#include "lithe/base/threads.h"
#include "lithe/bench/ceilings.h"
#include "lithe/bench/timing.h"
#include "lithe/kernels/gemm/gemm.h"

namespace {

using namespace lithe;
using namespace lithe::bench;

Tensor filled(Shape shape, DType dtype) {
  const Tensor x = empty(shape, dtype);
  dispatch_float(dtype, [&]<class T>() {
    uint32_t state = 12345;
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data<T>()[i] = T(float((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f - 0.5f);
  });
  return x;
}

struct Case {
  const char* form;
  kernels::GemmArgs args;
  std::vector<Tensor> weights;  // taken in turn, so that they come from memory and not from a cache
  double flops = 0, bytes = 0;
  std::vector<double> seconds, library_seconds;
  std::optional<OneDnnProduct> library;

  Case(const char* form, DType type, int64_t M, int64_t K, int64_t N, bool rowwise) : form(form) {
    args.transpose_a = form[0] == 'T';
    args.transpose_b = form[1] == 'T';
    args.rowwise = rowwise;
    args.a = filled(args.transpose_a ? Shape{K, M} : Shape{M, K}, type);
    args.c = empty({M, N}, DType::f32);
    const int64_t size = K * N * size_of(type),
                  copies = M <= 32 ? std::max<int64_t>(1, (int64_t(256) << 20) / size) : 1;
    for (int64_t i = 0; i < copies; ++i) weights.push_back(filled(args.transpose_b ? Shape{N, K} : Shape{K, N}, type));
    flops = 2.0 * double(M) * double(K) * double(N);
    bytes = double(size);
  }

  // Seconds of a call.
  template <class F>
  double timed(size_t round, F&& call) {
    size_t calls = 0;
    const double begin = now();
    do {
      args.b = weights[(round * 131 + calls) % weights.size()];
      call();
      ++calls;
    } while (now() - begin < 0.02);
    return (now() - begin) / double(calls);
  }

  void run(size_t round) {
    seconds.push_back(timed(round, [&] { kernels::gemm(args); }));
    if (round == 0) library = OneDnnProduct::of(args);
    if (library) library_seconds.push_back(timed(round, [&] { library->run(args); }));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  std::vector<Case> cases;
  struct Sizes {
    int64_t M, K, N;
  };
  const std::string_view only = argc > 2 ? argv[2] : "";
  for (const DType type : {DType::f32, DType::bf16}) {
    if (!only.empty() && only != name_of(type)) continue;
    for (const Sizes s : {Sizes{512, 512, 2048},
                          {2048, 512, 512},
                          {2048, 768, 3072},
                          {2048, 3072, 768},
                          {512, 768, 768},
                          {512, 768, 50257},
                          {333, 1001, 999}}) {
      cases.emplace_back("NN", type, s.M, s.K, s.N, false);
      cases.emplace_back("NT", type, s.M, s.K, s.N, false);
      cases.emplace_back("TN", type, s.K, s.M, s.N, false);
      cases.back().args.accumulate = true;
    }
    for (const Sizes s : {Sizes{64, 768, 3072}, {512, 768, 3072}, {512, 3072, 768}})
      for (const char* form : {"NN", "NT"}) cases.emplace_back(form, type, s.M, s.K, s.N, true);
    for (const int64_t M : {1, 4, 8, 16})
      for (const Sizes s : {Sizes{0, 768, 3072}, {0, 3072, 768}, {0, 768, 50257}})
        for (const char* form : {"NN", "NT"}) cases.emplace_back(form, type, M, s.K, s.N, true);
  }
  const Tensor memory = zeros({int64_t(512) << 20}, DType::u8);
  const Ceilings ceilings;
  const Ceiling narrow = ceilings.best(Ceiling::bf16);
  std::vector<double> peaks, narrow_peaks, reads;
  for (Case& c : cases) c.run(0);
  cases.shrink_to_fit();
  for (Case& c : cases) c.seconds.clear(), c.library_seconds.clear();
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < cases.size(); ++i) {
      if (i % 16 == 0) {
        peaks.push_back(multiply_add_gflops()), reads.push_back(read_gbs(memory));
        narrow_peaks.push_back(ceilings.probe(narrow) * 1e-9);
      }
      cases[i].run(size_t(round));
    }
  const double peak = median(peaks), bf16_peak = median(narrow_peaks), read = median(reads);
  std::printf("%d threads, %s: multiply-adds %.0f GFLOP/s in f32, %.0f in bf16, read %.1f GB/s\n", threads(),
              kernels::name_of(kernels::usable_isa()), peak, bf16_peak, read);
  std::printf("%-4s %-5s %-8s %5s %5s %6s %10s %8s %8s %8s\n", "form", "dtype", "rows", "M", "K", "N", "GFLOP/s",
              "oneDNN", "GB/s", "percent");
  for (const Case& c : cases) {
    const kernels::GemmArgs& g = c.args;
    const int64_t M = g.c.dim(0), N = g.c.dim(1), K = g.a.dim(g.transpose_a ? 0 : 1);
    const double seconds = median(c.seconds), best = g.a.dtype() == DType::bf16 ? bf16_peak : peak;
    const double percent = M <= 32 ? 100 * c.bytes / seconds / 1e9 / read : 100 * c.flops / seconds / 1e9 / best;
    std::printf("%-4s %-5s %-8s %5ld %5ld %6ld %10.1f %8.1f %8.1f %7.0f%%\n", c.form, name_of(g.a.dtype()),
                g.rowwise ? "rowwise" : "", long(M), long(K), long(N), c.flops / seconds / 1e9,
                c.library_seconds.empty() ? 0 : c.flops / median(c.library_seconds) / 1e9, c.bytes / seconds / 1e9,
                percent);
  }
  return 0;
}
