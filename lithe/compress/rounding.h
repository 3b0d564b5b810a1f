// Rounding of numbers to integers of p bits times a step (spec hpc.ptq), and of whole matrices.
#pragma once

#include <span>

#include "lithe/kernels/gemm/packed_matrix.h"

namespace lithe {

enum class RoundingScheme {
  symmetric,      // s = max|x| / (2^(p-1) - 1), integers in [-(2^(p-1) - 1), 2^(p-1) - 1]
  text_unsigned,  // as printed: s = max x / (2^p - 1), integers in [0, 2^p - 1]: for numbers that are not negative
};

/// Q and D of one step: Q(x) = round(x / s), halves away from zero, clipped to the range; D(r) = s r.
struct Rounding {
  double step = 0;  // 0 when all numbers are 0
  int64_t least = 0, most = 0;
  int64_t unclipped(double x) const;
  int64_t quantise(double x) const;
  double value(int64_t r) const { return step * double(r); }
};

/// The step for these numbers. `percentile` of the magnitudes counts as the maximum; 100: the maximum itself.
Rounding rounding_of(std::span<const float> x, int bits = 8, RoundingScheme scheme = RoundingScheme::symmetric,
                     double percentile = 100);

/// The numbers of w, [inputs, outputs] or by rows [outputs, inputs], f32 or bf16, as integers; `m` says how. int8: a
/// step an output. int4: the step of each group is searched for the least squared error, in bf16.
kernels::QuantizedTensors round_matrix(const Tensor& w, const kernels::PackedMatrix& m);

/// |w - w'| / |w| over all elements (Euclidean); 0 for a matrix of zeros.
double rounding_error(const Tensor& w, const kernels::PackedMatrix& packed);

}  // namespace lithe
