// Attention whose weights are the second-order Taylor polynomial of e^x (spec decon.approx), in two forms that give the
// same: tiles of weights among the rows of a call, and sums over features of all rows before it.
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// With x = scale q . k:
enum class TaylorKind {
  full,   // weight 1 + x + x^2/2, divided by the sum of weights
  diag,   // weight 1 + x + z, z = scale^2/2 sum_c (q_c k_c)^2; the sum of weights is taken as 1e-6 where it is smaller
  split,  // 1, x and z, each divided by its own sum, added
};
constexpr double kTaylorFloor = 1e-6;
/// Sums of weights a query and head has.
constexpr int64_t taylor_sums(TaylorKind kind) { return kind == TaylorKind::split ? 3 : 1; }
/// Features F of a key, in this order: second order (k_c k_e for full, else k_c^2), first order k_c, and 1.
constexpr int64_t taylor_features(TaylorKind kind, int64_t head_dim) {
  return 1 + head_dim + (kind == TaylorKind::full ? head_dim * head_dim : head_dim);
}
/// Scalars of a head's state: rows [value_dim + 1, F] of sums over the past of v_m f, and of f in the last row; that
/// row's last number, the count of tokens, is left out of diag and split.
constexpr int64_t taylor_state(TaylorKind kind, int64_t head_dim, int64_t value_dim) {
  return (value_dim + 1) * taylor_features(kind, head_dim) - (kind != TaylorKind::full);
}

/// Rows [row, row + rows) are one sequence or, with a `state` [heads, taylor_state] f32 (f64 for f64) of `past` rows
/// (zeros when 0), continue it and bring it forward. With keys >= 0 they read another text: rows [key_row, key_row +
/// keys) of k and v, all of them, or with a state and no keys what it sums up, which stays as it is; keys without rows
/// enter a state.
struct TaylorSegment {
  int64_t row = 0, rows = 0, past = 0;
  Tensor state;
  int64_t key_row = 0, keys = -1;

  bool own_keys() const { return keys < 0; }
  int64_t first_key() const { return own_keys() ? row : key_row; }
  int64_t key_count() const { return own_keys() ? rows : keys; }
};

/// out[i,head,:] = sum_j w[i,j] v[j,head,:] over the rows j of i's segment, and of its past: those up to i when
/// `causal`, otherwise all (then only segments with keys of another text have states; these are never causal). q [N,
/// heads*head_dim], out [N, heads*value_dim]; k, v likewise with N or, of another text, S rows; sums [N,
/// heads*taylor_sums] f32 (f64 for f64): the sums of weights, kept for the gradient. Rows that no segment covers are
/// not written. Arithmetic in f32 for f32 and bf16. Results of a sequence do not depend on the other segments, to the
/// bit.
struct TaylorArgs {
  TaylorKind kind = TaylorKind::full;
  Tensor q, k, v, out, sums;
  std::vector<TaylorSegment> segments;
  int64_t heads = 1, head_dim = 0, value_dim = 0;
  double scale = 1;
  bool causal = true;
};
Cost cost(const TaylorArgs& args);
/// How many sums of weights were below the floor (diag). Fails where one vanishes (split).
int64_t taylor_attention(const TaylorArgs& args);

/// Gradients for the same arguments (segments without states, covering all rows of q, k and v). Each is set, or added
/// to when its flag says so.
struct TaylorGradArgs {
  TaylorArgs forward;  // with out and sums filled
  Tensor dout, dq, dk, dv;
  bool accumulate_dq = false, accumulate_dk = false, accumulate_dv = false;
};
Cost cost(const TaylorGradArgs& args);
void taylor_attention_grad(const TaylorGradArgs& args);

}  // namespace lithe::kernels
