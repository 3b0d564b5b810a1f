// Products with integer weights beside those of lithe in bf16 and f32: GB/s of weights against a read probe of the same
// round with few rows, GOP/s with many (rounding of the rows included). Probe and cases take turns, round after round;
// medians are printed. Without arguments: rows 1, 4, 16 and 512, formats f32, bf16, int8 and int4, the shapes of
// GPT-2 124M. Formats are also those of GGUF files (q4_k), sizes inputs x outputs.
//   quantized_bench [rounds] [rows ...] [FORMAT ...] [KxN ...]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
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

// Bytes are so that two of them are a finite f16: the scales of blocks.
void fill(const Tensor& x) {
  uint32_t state = 12345;
  const auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 8; };
  if (x.dtype() == DType::u8)
    for (int64_t i = 0; i < x.numel(); ++i) x.data<uint8_t>()[i] = next() & 0xbf;
  else if (x.dtype() == DType::i8)
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

constexpr std::array kFormats = {PackedFormat::f32,  PackedFormat::bf16, PackedFormat::int8,   PackedFormat::int4,
                                 PackedFormat::q4_0, PackedFormat::q8_0, PackedFormat::iq4_nl, PackedFormat::q4_k,
                                 PackedFormat::q5_k, PackedFormat::q6_k};

// One shape in one format; weights are taken in turn, so that with few rows they come from memory.
struct Case {
  std::string format;
  int64_t M, K, N;
  std::vector<Tensor> dense;
  std::vector<PackedMatrix> packed;
  Tensor x, y;
  double bytes = 0;
  std::vector<double> seconds = {};

  Case(const std::string& name, int64_t M, int64_t K, int64_t N) : format(name), M(M), K(K), N(N) {
    const auto kind = std::find_if(kFormats.begin(), kFormats.end(), [&](auto f) { return name == name_of(f); });
    if (kind == kFormats.end()) std::fprintf(stderr, "quantized_bench: no format '%s'\n", name.c_str()), std::exit(2);
    const bool integer = integers(*kind), blocks = in_blocks(*kind);
    const BlockFormat block = block_format(*kind);
    if (blocks && K % block.inputs)
      std::fprintf(stderr, "quantized_bench: %s needs a multiple of %d inputs\n", name.c_str(), int(block.inputs)),
          std::exit(2);
    const DType type = name == "f32" ? DType::f32 : DType::bf16;
    x = filled({M, K}, integer ? DType::f32 : type), y = empty({M, N}, DType::f32);
    const int64_t group = blocks ? block.group : *kind == PackedFormat::int4 ? 32 : 0;
    PackedMatrix m{*kind, N, K, group, true, "weights", {}, {}};
    bytes = integer ? double(m.bytes()) : double(N * K * size_of(type));
    const int64_t copies = M <= 32 ? std::max<int64_t>(1, int64_t(double(int64_t(256) << 20) / bytes)) : 1;
    for (int64_t i = 0; i < copies; ++i) {
      if (!integer) {
        dense.push_back(filled({K, N}, type));
        continue;
      }
      pack(m, blocks  ? QuantizedTensors{filled({N, K / block.inputs * block.bytes}, DType::u8), {}}
              : group ? QuantizedTensors{filled({N, m.groups() * 16}, DType::u8), filled({N, m.groups()}, DType::bf16)}
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
  struct Sizes {
    long K, N;
  };
  std::vector<int64_t> rows;
  std::vector<std::string> formats;
  std::vector<Sizes> sizes;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    Sizes s{};
    if (std::sscanf(argv[i], "%ldx%ld", &s.K, &s.N) == 2 && s.K > 0 && s.N > 0)
      sizes.push_back(s);
    else if (word.find_first_not_of("0123456789") == std::string::npos)
      rows.push_back(std::max(1, std::atoi(argv[i])));
    else
      formats.push_back(word);
  }
  if (rows.empty()) rows = {1, 4, 16, 512};
  if (formats.empty()) formats = {"f32", "bf16", "int8", "int4"};
  if (sizes.empty()) sizes = {{768, 768}, {768, 3072}, {3072, 768}, {768, 50257}};
  const auto bf16_at = std::find(formats.begin(), formats.end(), "bf16");
  const Tensor memory = zeros({int64_t(256) << 20}, DType::u8);
  std::printf("%d threads, %s\n%-6s %5s %5s %6s %10s %8s %9s %8s\n", threads(), name_of(usable_isa()), "format", "M",
              "K", "N", "GOP/s", "GB/s", "of probe", bf16_at != formats.end() ? "vs bf16" : "");
  for (const Sizes s : sizes)
    for (const int64_t M : rows) {
      std::vector<Case> cases;
      for (const std::string& format : formats) cases.emplace_back(format, M, s.K, s.N);
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
        std::printf("%-6s %5ld %5ld %6ld %10.1f %8.1f %8.0f%%", c.format.c_str(), long(M), s.K, s.N,
                    2e-9 * double(M) * double(s.K) * double(s.N) / seconds, c.bytes / seconds / 1e9,
                    100 * median(shares[i]));
        if (bf16_at != formats.end())
          std::printf(" %7.2fx", median(cases[size_t(bf16_at - formats.begin())].seconds) / seconds);
        std::printf("\n");
      }
    }
  return 0;
}
