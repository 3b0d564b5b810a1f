#include "lithe/objective/label_count.h"

namespace lithe {

int64_t count_labels(const Targets& targets) {
  const Tensor& labels = targets.labels;
  if (labels.is_meta() || labels.dtype() != DType::i32) return labels.numel();
  int64_t out = 0;
  for (int64_t i = 0; i < labels.numel(); ++i) out += labels.data<int32_t>()[i] >= 0;
  return out;
}

}  // namespace lithe
