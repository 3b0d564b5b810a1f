#include "lithe/nn/slots.h"

#include <cmath>
#include <limits>

#include "lithe/kernels/token_map/reference.h"
#include "lithe/ops/token_map.h"

namespace lithe {

MixerMaps softmax_maps(const Var& q, const Var& k, int64_t heads, double scale, const kernels::AttentionMask& mask) {
  return softmax_maps(head_products(q.value(), k.value(), heads), heads,
                      scale != 0 ? scale : 1 / std::sqrt(double(q.cols() / heads)), mask);
}

MixerMaps softmax_maps(const Tensor& products, int64_t heads, double scale, const kernels::AttentionMask& mask) {
  const int64_t tokens = products.cols();
  const Tensor weights = empty_like(products), logits = empty_like(products);
  kernels::token_map({.logits = products, .map = weights, .scale = scale, .mask = mask});
  kernels::token_map({.logits = products, .map = logits, .kind = kernels::MapKind::plain, .scale = scale});
  const MixerMaps maps{.heads = heads, .weights = convert(weights, DType::f32), .logits = convert(logits, DType::f32)};
  for (int64_t row = 0; row < heads * tokens; ++row) {
    const auto seen = kernels::ref::seen_columns(tokens, mask, row % tokens);
    for (int64_t j = 0; j < tokens; ++j)
      if (j < seen.begin || j >= seen.end)
        maps.logits.data<float>()[row * tokens + j] = -std::numeric_limits<float>::infinity();
  }
  return maps;
}

}  // namespace lithe
