// Table rows by id, and their gradient (spec embed.token).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// out[n,:] = scale * table[ids[n],:] (+ out[n,:] when accumulating). ids i32 [N], all in [0, V), or
/// negative for no row: zeros. table [V,D] and out [N,D] may differ in dtype (f32 table, bf16 out). The caller has
/// checked the ids.
struct GatherArgs {
  Tensor table, ids, out;
  double scale = 1;
  bool accumulate = false;
};
Cost cost(const GatherArgs& args);
void gather(const GatherArgs& args);

/// dtable[ids[n],:] += scale * dout[n,:], in the order of n for every row of the table (reproducible).
/// dtable f32 (f64 for f64). Rows equal to `skip` get nothing (padding; -1: none),
/// negative ids give nothing.
struct ScatterAddArgs {
  Tensor dout, ids, dtable;
  double scale = 1;
  int64_t skip = -1;
};
Cost cost(const ScatterAddArgs& args);
void scatter_add(const ScatterAddArgs& args);

}  // namespace lithe::kernels
