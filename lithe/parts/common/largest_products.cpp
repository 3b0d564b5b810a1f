#include "lithe/parts/common/largest_products.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lithe/kernels/gemm/gemm.h"
#include "lithe/ops/heads.h"

namespace lithe {
namespace {

template <class T>
class Largest {
 public:
  std::vector<int32_t> of(const T* products, int64_t count, int64_t most) {
    const auto n = std::min(count, most);
    std::vector<int32_t> out;
    if (n == 0) return out;
    values_.assign(products, products + count);
    for (T& value : values_)
      if (std::isnan(value)) value = -std::numeric_limits<T>::infinity();
    ordered_ = values_;
    std::nth_element(ordered_.begin(), ordered_.begin() + (n - 1), ordered_.end(), std::greater<>());
    const T least = ordered_[size_t(n - 1)];
    int64_t equal = n;  // keys whose product is the least that is taken
    for (const T value : values_) equal -= value > least;
    out.reserve(size_t(n));
    for (int64_t j = 0; j < count; ++j)
      if (const T value = values_[size_t(j)]; value > least || (value == least && equal-- > 0))
        out.push_back(int32_t(j));
    return out;
  }

 private:
  std::vector<T> values_, ordered_;
};

}  // namespace

std::vector<std::vector<int32_t>> largest_products(const Tensor& q, const Tensor& k, int64_t heads, int64_t kv_heads,
                                                   int64_t most, const std::function<int64_t(int64_t)>& seen) {
  constexpr int64_t kBlock = 64;  // queries whose products are kept at a time
  const int64_t queries = q.dim(0), keys = k.dim(0), group = heads / kv_heads;
  std::vector<std::vector<int32_t>> out;
  if (queries == 0) return out;
  const MemoryScope scope(MemoryClass::workspace);
  const Tensor by_head = head_major(q, heads), keys_by_head = head_major(k, kv_heads),
               products = empty({std::min(kBlock, queries), keys}, wide_of(q.dtype()), q.device());
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t first = 0; first < queries; first += kBlock) {
      const int64_t rows = std::min(kBlock, queries - first);
      kernels::gemm({.a = by_head.slice(head * queries + first, head * queries + first + rows),
                     .b = keys_by_head.slice(head / group * keys, (head / group + 1) * keys),
                     .c = products.slice(0, rows),
                     .transpose_b = true,
                     .rowwise = true});
      if (products.is_meta()) continue;
      dispatch_float(products.dtype(), [&]<class T>() {
        Largest<T> largest;
        for (int64_t i = 0; i < rows; ++i)
          out.push_back(
              largest.of(static_cast<const T*>(products.raw()) + i * keys, std::min(seen(first + i), keys), most));
      });
    }
  return out;
}

}  // namespace lithe
