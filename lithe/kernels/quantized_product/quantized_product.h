// Products of rows with matrices of integer weights, and rows of such matrices as numbers (spec hpc.int_matmul).
#pragma once

#include <span>

#include "lithe/kernels/gemm/packed_matrix.h"
#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// y[m,n] = sum_k D(Q(x))[m,k] w[n,k] + bias[n]: x [M, inputs] and y [M, outputs] f32 or bf16 alike, or f32 y of bf16
/// x; bias f32 [outputs], optional. Each row of x is rounded to 8 bits with its own step s = max|x| / 127, halves away
/// from zero; sums of integers are exact, over all inputs (int8) or over each group (int4, blocks), whose values are
/// then summed in f32 in order. A row of y has the same bits whatever M is and wherever the row stands. A row of x with
/// an infinity or NaN gives NaN; one whose largest magnitude is below 2^-100 counts as zero.
struct QuantizedProductArgs {
  Tensor x;
  const PackedMatrix* w = nullptr;
  Tensor y, bias = {};
};
Cost cost(const QuantizedProductArgs& args);
/// Several products of one x, which is rounded once: each with the bits that it has alone. Their weights must be alike
/// in inputs, format and group, their y in type.
void quantized_products(std::span<const QuantizedProductArgs> products);
inline void quantized_product(const QuantizedProductArgs& args) { quantized_products({&args, 1}); }

/// out[i,:] = factor * row ids[i] of a matrix with rows as outputs, zero for ids[i] < 0; ids i32 [N], each below
/// `outputs` (the caller has checked them); out [N, inputs] f32 or bf16.
struct PackedGatherArgs {
  const PackedMatrix* table = nullptr;
  Tensor ids, out;
  double scale = 1;
};
Cost cost(const PackedGatherArgs& args);
void packed_gather(const PackedGatherArgs& args);

}  // namespace lithe::kernels
