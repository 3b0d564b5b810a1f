// What the public functions hand to the vector kernels beyond the arguments: workspace, tables and
// results, made by code that is compiled once for every machine.
#pragma once

#include "lithe/kernels/cross_entropy.h"
#include "lithe/kernels/elementwise.h"
#include "lithe/kernels/hadamard.h"
#include "lithe/kernels/norm.h"
#include "lithe/kernels/optimizer.h"
#include "lithe/kernels/rope.h"

namespace lithe::kernels {

/// Column sums are made per thread in `partial` [threads, 2, C] f32 and then added in the order of threads.
struct RowAffineGradTask {
  RowAffineGradArgs args;
  float* partial = nullptr;
};
struct NormGradTask {
  NormGradArgs args;
  float* partial = nullptr;
};

/// `row` [threads, columns] f32 holds the exponentials of the row in work.
struct CrossEntropyTask {
  CrossEntropyArgs args;
  float* row = nullptr;
};
struct SoftmaxTask {
  SoftmaxArgs args;
  float* row = nullptr;
};

/// `base` m of the order m 2^k. Workspace in f32: `row` [threads, order] is the row in work, `vectors` [2, C] what
/// multiplies and shifts it; `partial` as above.
struct HadamardTask {
  HadamardArgs args;
  int base = 1;
  float *row = nullptr, *vectors = nullptr;
};
struct HadamardGradTask {
  HadamardGradArgs args;
  int base = 1;
  float *row = nullptr, *vectors = nullptr, *partial = nullptr;
};

/// `frequencies` [head_dim / 2]: base^(-2c / head_dim).
struct RopeTask {
  RopeArgs args;
  const double* frequencies = nullptr;
};

constexpr int64_t kSquaresBlock = 65536;
/// `blocks` [ceil(numel / kSquaresBlock)] receives the sum of squares of each block.
struct SquaresTask {
  Tensor x;
  double* blocks = nullptr;
};
struct FiniteTask {
  Tensor x;
  bool* result = nullptr;
};

inline Cost cost(const RowAffineGradTask& task) { return cost(task.args); }
inline Cost cost(const NormGradTask& task) { return cost(task.args); }
inline Cost cost(const CrossEntropyTask& task) { return cost(task.args); }
inline Cost cost(const SoftmaxTask& task) { return cost(task.args); }
inline Cost cost(const HadamardTask& task) { return cost(task.args); }
inline Cost cost(const HadamardGradTask& task) { return cost(task.args); }
inline Cost cost(const RopeTask& task) { return cost(task.args); }
inline Cost cost(const SquaresTask& task) { return {2.0 * double(task.x.numel()), double(task.x.bytes())}; }
inline Cost cost(const FiniteTask& task) { return {double(task.x.numel()), double(task.x.bytes())}; }

}  // namespace lithe::kernels
