// Weighted sums of table rows that groups of a code's bits name (spec emb.hash_pool).
#pragma once

#include "lithe/kernels/token_bits/token_bits.h"

namespace lithe::kernels {

/// Groups that `bits` bits make, `group_size` bits each, the last one what is left.
constexpr int64_t groups_of(int64_t bits, int64_t group_size) { return (bits + group_size - 1) / group_size; }

/// out[n,:] = sum_j weights[j,:] * table[c_j(n),:] over the groups j, c_j the number that group j of code n makes,
/// first bit most significant; zeros for special tokens. codes i32 [N, code_width(bits)]; table [2^group_size, D] and
/// out [N,D] of one dtype; weights [groups, D] f32 (f64 for f64).
struct HashPoolArgs {
  Tensor codes, table, weights, out;
  int64_t bits = 0, group_size = 0;
};
Cost cost(const HashPoolArgs& args);
void hash_pool(const HashPoolArgs& args);

/// dtable[c,:] += sum over (n,j) with c_j(n) = c of weights[j,:] * dout[n,:];  dweights[j,:] += sum_n table[c_j(n),:] *
/// dout[n,:]. Either may be absent; both are f32 (f64 for f64). Each element sees its additions in the order of n,
/// whatever the number of threads.
struct HashPoolGradArgs {
  Tensor codes, table, weights, dout, dtable, dweights;
  int64_t bits = 0, group_size = 0;
};
Cost cost(const HashPoolGradArgs& args);
void hash_pool_grad(const HashPoolGradArgs& args);

}  // namespace lithe::kernels
