// Logits of candidates that are named by codes.
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// out[n, w] = sum_k x[n, k C + codes[w, k]]: x [N, K*C] the logits of K tables of C codes side by side, codes i32 [W,
/// K], each in [0, C). Sums in f32 (f64 for f64), results in x's dtype.
Var candidate_scores(const Var& x, const Tensor& codes);

/// The code in each of `tables` tables of every label, -1 for labels below 0: i32 [N * tables], label n's k-th at n *
/// tables + k. Fails on a label beyond the candidates.
Tensor label_codes(const Tensor& labels, const Tensor& codes);

/// Codes of `candidates` ids in `tables` tables of `count` codes: i32 [candidates, tables]. Code k of id w is hashed by
/// split_mix() of the seed, k and w, anew until no id below w has all its codes. Fails (usage) where there are fewer
/// combinations of codes than candidates.
Tensor hashed_codes(int64_t candidates, int64_t tables, int64_t count, int64_t seed, Device device);

}  // namespace lithe
