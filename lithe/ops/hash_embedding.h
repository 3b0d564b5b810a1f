// Rows of vocabulary-free tokens, computed from their codes (kernels/token_bits/token_bits.h says what a code is).
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/columns/columns.h"
#include "lithe/kernels/hash_pool/hash_pool.h"

namespace lithe {

/// Fails unless `codes` are i32 [N, width], each one of the special tokens 0 to 4 or an ordinary one.
void check_codes(const char* op, const Tensor& codes, int64_t width);

/// The special token of each code, -1 for ordinary tokens: i32 [N].
Tensor special_ids(const Tensor& codes);

/// 0 for ordinary tokens, -1 for special ones: i32 [N].
Tensor ordinary_ids(const Tensor& codes);

/// The payload of each code [special, payload], -1 for special tokens: i32 [N]. Fails unless it lies in [0, bound);
/// `what` names it in the error.
Tensor payload_ids(const char* op, const Tensor& codes, int64_t bound, const char* what);

/// Rows of `count` tables of `buckets` rows, one under the other, that the code point c of each code [special, c]
/// hashes to, -1 for special tokens: i32 [N * count], table k's at n * count + k: k buckets + ((c + 1) prime_k mod
/// buckets).
Tensor code_point_ids(const Tensor& codes, int64_t count, int64_t buckets);
/// How many hash functions code_point_ids has.
int64_t code_point_hashes();

/// The numbers of each code [special, numbers], zeros for special tokens: [N, width - 1] in `dtype`.
Tensor code_numbers(const Tensor& codes, DType dtype);

/// `scale` times the bits of codes as rows of numbers (kernels/token_bits/token_bits.h); zeros for special tokens.
Tensor token_bits(const Tensor& codes, int64_t bits, kernels::BitForm form, DType dtype, double scale = 1);

/// out [N,D] = sum_j shares[j,:] * table[c_j,:] over the groups of bits of each code (kernels/hash_pool/hash_pool.h);
/// shares [groups, D] f32 (f64 for f64).
Var hash_pool(const Tensor& codes, const Var& table, const Var& shares, int64_t bits, int64_t group_size);

/// Each column of x [R,C] mapped (kernels/columns/columns.h), in `dtype`.
Var map_columns(kernels::ColumnMap map, const Var& x, DType dtype);

}  // namespace lithe
