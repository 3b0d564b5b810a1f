// Explicit maps of tokens to tokens, and rows mixed by them.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/token_map/token_map.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// The attention map of one sequence: softmax(scale q k^T + mask) per head. q, k [T, heads*d_h] -> [heads*T, T] in q's
/// dtype; scale 0 is 1/sqrt(d_h).
Var attention_map(const Var& q, const Var& k, int64_t heads, double scale, const kernels::AttentionMask& mask);

/// q k^T per head, without scale and mask: [heads*T, T] in f32 (f64 for f64).
Tensor head_products(const Tensor& q, const Tensor& k, int64_t heads);

/// map [T,T] where a row may see a column, 0 elsewhere.
Var masked_map(const Var& map, const kernels::AttentionMask& mask);

/// out[n] = sum_j map[h,i,j] x[j] for row i of a sequence and head h of its columns: map [heads*T, T], x [N, heads*c];
/// a sequence of fewer than T rows uses the leading block. One map serves all sequences.
Var mix_tokens(const Var& map, const Var& x, const Sequences& sequences, int64_t heads);

/// For decoding: row `past` of a sequence, mixed by row `past` of map [T,T] (f32 or f64) from the sequence's rows so
/// far: x [>past, C] -> [1, C] in x's dtype.
Tensor mix_cached(const Tensor& map, const Tensor& x, int64_t past);

}  // namespace lithe
