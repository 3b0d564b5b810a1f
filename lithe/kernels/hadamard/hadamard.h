// The Hadamard transform of rows with a learned scale and shift (spec proj.hadamard, had.fwht, had.kronecker, had.pad).
// H of order D = m 2^k is H_m (x) H_{2^k}, natural order: entry (a 2^k + i, b 2^k + j) is H_m[a,b] (-1)^popcount(i &
// j), with H_m of base.h. f64, f32, bf16 rows; alpha, beta and sums in f32 (f64 for f64).
#pragma once

#include "lithe/kernels/hadamard/base.h"
#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// The base matrix of H of this order; null when no such H can be built.
const HadamardBase* hadamard_base(int64_t order);
/// Fails (usage) when H of this order cannot be built, naming the nearest orders below and above that can; `remedy`
/// ends the message.
void check_hadamard_order(const char* op, int64_t order, const char* remedy = "pad the rows to one of these");
/// The power of two that `size` is padded to.
int64_t hadamard_padded(int64_t size);

/// out[n,c] = alpha[c] * scale * sum_i x[n,i] H[i,c] + beta[c]. x, out [N,C], C <= order: rows are padded with zeros
/// and results beyond C dropped. alpha and beta [C] may each be absent (1, 0). out may be x.
struct HadamardArgs {
  Tensor x, alpha, beta, out;
  int64_t order = 0;
  double scale = 1;
};
Cost cost(const HadamardArgs& args);
void hadamard(const HadamardArgs& args);

/// dx[n,i] (+)= scale * sum_c dout[n,c] alpha[c] H[i,c]; dalpha[c] += scale * sum_n dout[n,c] (x H)[n,c]; dbeta[c] +=
/// sum_n dout[n,c]. Absent outputs are skipped; dalpha and dbeta are f32 (f64 for f64) and always accumulate. x is read
/// for dalpha only. dx may be dout when it is set, not accumulated.
struct HadamardGradArgs {
  Tensor x, alpha, dout, dx, dalpha, dbeta;
  int64_t order = 0;
  double scale = 1;
  bool accumulate = false;
};
Cost cost(const HadamardGradArgs& args);
void hadamard_grad(const HadamardGradArgs& args);

}  // namespace lithe::kernels
