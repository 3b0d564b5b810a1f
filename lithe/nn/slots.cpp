#include "lithe/nn/slots.h"

#include <limits>

#include "lithe/kernels/ref/token_map.h"
#include "lithe/ops/token_map.h"

namespace lithe {

MixerMaps softmax_maps(const Var& q, const Var& k, int64_t heads, double scale, const kernels::AttentionMask& mask) {
  MixerMaps maps{.heads = heads};
  Tensor logits;
  const int64_t tokens = q.rows();
  maps.weights = convert(attention_map(q, k, heads, scale, mask, &logits).value(), DType::f32);
  maps.logits = convert(logits, DType::f32);
  for (int64_t row = 0; row < heads * tokens; ++row) {
    const auto seen = kernels::ref::seen_columns(tokens, mask, row % tokens);
    for (int64_t j = 0; j < tokens; ++j)
      if (j < seen.begin || j >= seen.end)
        maps.logits.data<float>()[row * tokens + j] = -std::numeric_limits<float>::infinity();
  }
  return maps;
}

}  // namespace lithe
