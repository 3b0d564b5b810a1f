// Which keys have the largest products with each query: exact search by matrix products.
#pragma once

#include <functional>
#include <vector>

#include "lithe/tensor/tensor.h"

namespace lithe {

/// For each query, head after head ([heads * queries]), the at most `most` of its first `seen(i)` keys whose products
/// with it are largest, in ascending order; of equal products those of earlier keys. q [queries, heads*d], k [keys,
/// kv_heads*d] of q's dtype; neighbouring heads share a key head. A query's keys do not depend on the others. Not a
/// number is the least of all. Nothing on meta.
std::vector<std::vector<int32_t>> largest_products(const Tensor& q, const Tensor& k, int64_t heads, int64_t kv_heads,
                                                   int64_t most, const std::function<int64_t(int64_t query)>& seen);

}  // namespace lithe
