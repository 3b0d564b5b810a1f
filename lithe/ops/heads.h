// Rows of heads: many formed from one (spec mixer.mhe_add, mixer.mhe_mul, mixer.sha), each mapped by its own matrix.
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// x [N,C] -> [N, heads*C]: head j is x * scale[j] + shift[j]. scale and shift [heads*C], either may be undefined.
Var spread_heads(const Var& x, int64_t heads, const Var& scale = {}, const Var& shift = {});

/// Each head's columns by a matrix of its own: w [d, heads*c] holds W_j [d, c] in the columns of head j.
/// x [N, heads*d] -> x_j W_j, [N, heads*c]; transposed: x [N, heads*c] -> x_j W_j^T, [N, heads*d].
Var head_linear(const Var& x, const Var& w, int64_t heads, bool transposed);

/// Every one of `heads` query heads beside its group's keys or values: x [N, kv_heads*c] -> [N, heads*c], each of its
/// heads repeated heads / kv_heads times.
Var repeat_heads(const Var& x, int64_t kv_heads, int64_t heads);

/// For operations: [N, heads*c] -> [heads*N, c], and back into `out` [N, heads*c], added to it when told.
Tensor head_major(const Tensor& x, int64_t heads);
void to_token_major(const Tensor& x, const Tensor& out, int64_t heads, bool accumulate = false);

}  // namespace lithe
