#include "lithe/kernels/cases.h"
#include "lithe/kernels/quantized_product/quantized_product.h"

namespace lithe::kernels {

void add_cases_quantized_product(KernelCases& c) {
  if (!c.untyped || c.device == Device::meta) return;                  // integer weights are never planned
  constexpr int64_t K = 2048, N = 8192, kWeights = int64_t(96) << 20;  // bytes that products of few rows take in turn
  for (const PackedFormat format : {PackedFormat::int8, PackedFormat::int4, PackedFormat::q4_k, PackedFormat::q5_k,
                                    PackedFormat::q6_k, PackedFormat::iq4_nl, PackedFormat::q8_0}) {
    PackedMatrix m;
    m.format = format, m.outputs = N, m.inputs = K, m.group = format == PackedFormat::int4 ? 32 : 0, m.name = "weights";
    if (in_blocks(format)) {
      const BlockFormat f = block_format(format);
      pack(m, {c.cleared({N, K / f.inputs * f.bytes}, DType::u8), {}});
    } else {
      pack(m, m.group ? QuantizedTensors{c.filled({N, K / 2}, DType::u8), c.filled({N, K / m.group}, DType::bf16)}
                      : QuantizedTensors{c.filled({N, K}, DType::i8), c.filled({N}, DType::f32)});
    }
    const auto matrices = std::make_shared<std::vector<PackedMatrix>>();
    for (int64_t bytes = 0; bytes < kWeights; bytes += m.bytes()) {
      matrices->push_back(m);
      if (bytes) matrices->back().data = clone(m.data);
    }
    for (const int64_t rows : {1, 8, 512}) {
      QuantizedProductArgs args{
          .x = c.filled({rows, K}, DType::f32), .w = &(*matrices)[0], .y = c.cleared({rows, N}, DType::f32)};
      c.add(cat("product ", rows, "x", K, "x", N, " ", name_of(format)), cost(args), Compute::int8, Traffic::read,
            [=, next = size_t(0)]() mutable {
              args.w = &(*matrices)[next++ % matrices->size()];
              quantized_product(args);
            });
    }
  }
}

}  // namespace lithe::kernels
