// What the vector kernels of integer products are given: plain pointers and sizes.
#pragma once

#include "lithe/kernels/quantized_product/quantized_product.h"

namespace lithe::kernels {

/// y = D(Q(x)) w^T + bias, as QuantizedProductArgs says.
struct QuantizedProduct {
  const QuantizedProductArgs* args;
  int64_t M, N, K;
  const uint8_t* w;
  const float* w_scales;  // int8; else null
  const float* bias;      // or null
  int64_t group, groups, units, panel_bytes, group_bytes;
  void* workspace;  // 64-byte aligned, of the size below; the same for all products of one x
};

/// Products of one x.
struct QuantizedProducts {
  std::span<const QuantizedProduct> all;
};
inline Cost cost(const QuantizedProducts& products) {
  Cost sum;
  for (const QuantizedProduct& p : products.all) sum += cost(*p.args);
  return sum;
}

struct PackedGather {
  const PackedGatherArgs* args;
  PackedFormat format;
  int64_t N, K;
  const uint8_t* w;
  const float* w_scales;  // int8; else null
  int64_t group, panel_bytes, group_bytes;
};
inline Cost cost(const PackedGather& g) { return cost(*g.args); }

/// The rounded rows in words of 4 inputs, their sums a group, and their steps.
inline int64_t quantized_workspace(const PackedMatrix& w, int64_t M) { return M * (w.units() + w.groups() + 1) * 4; }

}  // namespace lithe::kernels

LITHE_DECLARE_CPU(quantized_products, QuantizedProducts)
LITHE_DECLARE_CPU(packed_gather, PackedGather)
