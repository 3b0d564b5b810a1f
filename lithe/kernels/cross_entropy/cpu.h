// What the public functions hand to the vector kernels beyond the arguments: workspace, tables and
// results, made by code that is compiled once for every machine.
#pragma once

#include "lithe/kernels/cross_entropy/cross_entropy.h"

namespace lithe::kernels {

/// `row` [threads, columns] f32 holds the exponentials of the row in work.
struct CrossEntropyTask {
  CrossEntropyArgs args;
  float* row = nullptr;
};
struct SoftmaxTask {
  SoftmaxArgs args;
  float* row = nullptr;
};
inline Cost cost(const CrossEntropyTask& task) { return cost(task.args); }
inline Cost cost(const SoftmaxTask& task) { return cost(task.args); }

}  // namespace lithe::kernels
