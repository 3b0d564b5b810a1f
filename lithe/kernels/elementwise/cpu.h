// What the public functions hand to the vector kernels beyond the arguments: workspace, tables and
// results, made by code that is compiled once for every machine.
#pragma once

#include "lithe/kernels/elementwise/elementwise.h"

namespace lithe::kernels {

/// Column sums are made per thread in `partial` [threads, 2, C] f32 and then added in the order of threads.
struct RowAffineGradTask {
  RowAffineGradArgs args;
  float* partial = nullptr;
};
inline Cost cost(const RowAffineGradTask& task) { return cost(task.args); }

}  // namespace lithe::kernels
