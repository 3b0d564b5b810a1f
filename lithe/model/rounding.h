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

/// Which integers weights become, and how they are stored.
struct WeightIntegers {
  std::string name;                                            // "int4"
  kernels::PackedFormat format = kernels::PackedFormat::int8;  // int2 and ternary are stored as int4
  int64_t group = 0;                                           // inputs that share a step; 0: all of an output
  int least = -127, most = 127;
};
/// "int8"; "int4": [-8, 7], "int2": [-2, 1], "ternary": [-1, 1], these with a step a group of 32 or 64 inputs. Fails
/// (usage) on another word or size.
WeightIntegers weight_integers(const std::string& name, int64_t group_size);
/// The words that it takes.
inline const std::vector<std::string> kWeightIntegers{"int8", "int4", "int2", "ternary"};

/// The numbers of w, [inputs, outputs] or by rows [outputs, inputs], as integers; `m` says how. int8: a step an output.
/// int4: the step of each group is searched for the least squared error, in bf16, with the integers that `as` has.
kernels::QuantizedTensors round_matrix(const Tensor& w, const kernels::PackedMatrix& m, const WeightIntegers& as);
/// With all integers of the format.
kernels::QuantizedTensors round_matrix(const Tensor& w, const kernels::PackedMatrix& m);

/// The same where a squared error of input k counts importance[k] times, f64 [inputs]: of int8, too, the step is
/// searched then, at or below that of the largest magnitude.
kernels::QuantizedTensors round_matrix(const Tensor& w, const kernels::PackedMatrix& m, const WeightIntegers& as,
                                       const Tensor& importance);
/// The same at given steps, f32, one an output (int8) or a group [outputs, groups], which int4 rounds to bf16.
kernels::QuantizedTensors round_at_steps(const Tensor& w, const kernels::PackedMatrix& m, const WeightIntegers& as,
                                         const Tensor& steps);
/// The same by second order [Frantar et al. 2023]: the integers of each output that leave a small error of its products
/// with rows x whose sums of products x^T x are `moments`, f64 [inputs, inputs]: inputs are rounded one after another,
/// and those behind make up for the error, with `damping` times the mean of the diagonal added to it. Steps of groups
/// are searched where rounding comes to them.
kernels::QuantizedTensors round_by_second_order(const Tensor& w, const kernels::PackedMatrix& m,
                                                const WeightIntegers& as, const Tensor& moments, double damping = 0.01);

/// What these integers stand for, in the places of w and in the type of `out`.
void write_numbers(const kernels::QuantizedTensors& integers, const kernels::PackedMatrix& m, const Tensor& out);

/// |w - w'| / |w| over all elements (Euclidean); 0 for a matrix of zeros.
double rounding_error(const Tensor& w, const kernels::PackedMatrix& packed);

}  // namespace lithe
