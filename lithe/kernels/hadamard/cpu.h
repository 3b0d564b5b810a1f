// What the public functions hand to the vector kernels beyond the arguments: workspace, tables and
// results, made by code that is compiled once for every machine.
#pragma once

#include "lithe/kernels/hadamard/hadamard.h"

namespace lithe::kernels {

/// `base` m of the order m 2^k. Workspace in f32: `row` [threads, order] is the row in work, `vectors` [2, C] what
/// multiplies and shifts it; `partial` [threads, 2, C] holds column sums, which are added in the order of threads.
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
inline Cost cost(const HadamardTask& task) { return cost(task.args); }
inline Cost cost(const HadamardGradTask& task) { return cost(task.args); }

}  // namespace lithe::kernels
