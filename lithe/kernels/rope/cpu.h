// What the public functions hand to the vector kernels beyond the arguments: workspace, tables and
// results, made by code that is compiled once for every machine.
#pragma once

#include "lithe/kernels/rope/rope.h"

namespace lithe::kernels {

/// `frequencies` [turned() / 2].
struct RopeTask {
  RopeArgs args;
  const double* frequencies = nullptr;
};
inline Cost cost(const RopeTask& task) { return cost(task.args); }

}  // namespace lithe::kernels
