// What the public functions hand to the vector kernels beyond the arguments: workspace, tables and
// results, made by code that is compiled once for every machine.
#pragma once

#include "lithe/kernels/optimizer/optimizer.h"

namespace lithe::kernels {

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
inline Cost cost(const SquaresTask& task) { return {2.0 * double(task.x.numel()), double(task.x.bytes())}; }
inline Cost cost(const FiniteTask& task) { return {double(task.x.numel()), double(task.x.bytes())}; }

}  // namespace lithe::kernels
