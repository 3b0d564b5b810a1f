// What the public functions hand to the vector kernels beyond the arguments: workspace, tables and
// results, made by code that is compiled once for every machine.
#pragma once

#include "lithe/kernels/norm/norm.h"

namespace lithe::kernels {

/// Column sums are made per thread in `partial` [threads, 2, C] f32 and then added in the order of threads.
struct NormGradTask {
  NormGradArgs args;
  float* partial = nullptr;
};
inline Cost cost(const NormGradTask& task) { return cost(task.args); }

}  // namespace lithe::kernels
