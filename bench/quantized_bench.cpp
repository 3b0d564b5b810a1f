// Products with integer weights beside those of lithe in bf16 and f32, at the shapes of GPT-2 124M: GB/s of weights
// against a read probe of the same round with few rows, GOP/s with many (rounding of the rows included). Probe and
// cases take turns, round after round; medians are printed.
//   quantized_bench [rounds] [rows ...]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "lithe/base/threads.h"
#include "lithe/bench/ceilings.h"
#include "lithe/bench/timing.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/quantized_product/quantized_product.h"

namespace {

using namespace lithe;
using namespace lithe::bench;
using namespace lithe::kernels;

void fill(const Tensor& x) {
  uint32_t state = 12345;
  const auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 8; };
  if (x.dtype() == DType::u8 || x.dtype() == DType::i8)
    for (int64_t i = 0; i < x.numel(); ++i) static_cast<int8_t*>(x.raw())[i] = int8_t(next() % 255 - 127);
  else
    dispatch_float(x.dtype(), [&]<class T>() {
      for (int64_t i = 0; i < x.numel(); ++i) x.data<T>()[i] = T(float(next()) * 0x1p-24f - 0.5f);
    });
}

Tensor filled(Shape shape, DType type) {
  const Tensor x = empty(shape, type);
  fill(x);
  return x;
}

// One shape in one format; weights are taken in turn, so that with few rows they come from memory.
struct Case {
  const char* format;
  int64_t M, K, N;
  std::vector<Tensor> dense;
  std::vector<PackedMatrix> packed;
  Tensor x, y;
  double bytes = 0;
  std::vector<double> seconds = {};

  Case(const char* name, int64_t M, int64_t K, int64_t N) : format(name), M(M), K(K), N(N) {
    const std::string kind = name;
    const bool integer = kind.starts_with("int");
    const DType type = kind == "f32" ? DType::f32 : DType::bf16;
    x = filled({M, K}, integer ? DType::f32 : type), y = empty({M, N}, DType::f32);
    PackedMatrix m{kind == "int8" ? PackedFormat::int8 : PackedFormat::int4,
                   N,
                   K,
                   kind == "int8" ? 0 : 32,
                   true,
                   "weights",
                   {},
                   {}};
    bytes = integer ? double(m.bytes()) : double(N * K * size_of(type));
    const int64_t copies = M <= 32 ? std::max<int64_t>(1, int64_t(double(int64_t(256) << 20) / bytes)) : 1;
    for (int64_t i = 0; i < copies; ++i) {
      if (!integer) {
        dense.push_back(filled({K, N}, type));
        continue;
      }
      pack(m, m.group ? QuantizedTensors{filled({N, m.groups() * 16}, DType::u8), filled({N, m.groups()}, DType::bf16)}
                      : QuantizedTensors{filled({N, K}, DType::i8), filled({N}, DType::f32)});
      packed.push_back(m);
    }
  }

  void run(size_t round) {
    size_t calls = 0;
    const double begin = now();
    do {
      const size_t at = round * 131 + calls;
      if (dense.empty())
        quantized_product({x, &packed[at % packed.size()], y});
      else
        gemm({.a = x, .b = dense[at % dense.size()], .c = y, .rowwise = true});
      ++calls;
    } while (now() - begin < 0.02);
    seconds.push_back((now() - begin) / double(calls));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  std::vector<int64_t> rows;
  for (int i = 2; i < argc; ++i) rows.push_back(std::max(1, std::atoi(argv[i])));
  if (rows.empty()) rows = {1, 4, 16, 512};
  struct Sizes {
    int64_t K, N;
  };
  const Tensor memory = zeros({int64_t(256) << 20}, DType::u8);
  std::printf("%d threads, %s\n%-6s %5s %5s %6s %10s %8s %9s %8s\n", threads(), name_of(usable_isa()), "format", "M",
              "K", "N", "GOP/s", "GB/s", "of probe", "vs bf16");
  for (const Sizes s : {Sizes{768, 768}, {768, 3072}, {3072, 768}, {768, 50257}})
    for (const int64_t M : rows) {
      std::vector<Case> cases;
      for (const char* format : {"f32", "bf16", "int8", "int4"}) cases.emplace_back(format, M, s.K, s.N);
      std::vector<std::vector<double>> shares(cases.size());
      for (Case& c : cases) c.run(0), c.seconds.clear();
      for (int round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < cases.size(); ++i) {
          const double before = read_gbs(memory);
          cases[i].run(size_t(round));
          const double probe = (before + read_gbs(memory)) / 2;
          shares[i].push_back(cases[i].bytes / cases[i].seconds.back() / 1e9 / probe);
        }
      }
      for (size_t i = 0; i < cases.size(); ++i) {
        const Case& c = cases[i];
        const double seconds = median(c.seconds);
        std::printf("%-6s %5ld %5ld %6ld %10.1f %8.1f %8.0f%% %7.2fx\n", c.format, long(M), long(s.K), long(s.N),
                    2e-9 * double(M) * double(s.K) * double(s.N) / seconds, c.bytes / seconds / 1e9,
                    100 * median(shares[i]), median(cases[1].seconds) / seconds);
      }
    }
  return 0;
}
