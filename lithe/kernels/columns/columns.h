// Maps of whole columns of small parameter matrices (spec emb.hash_pool, emb.hash_proj).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

enum class ColumnMap {
  softmax,      // e^x over its sum
  standardize,  // x less its mean, over its norm or 1e-8 where that is larger
};

/// y[:,c] is the map of the column x[:,c]. x and y [R,C], of any floating dtype each.
struct ColumnMapArgs {
  ColumnMap map;
  Tensor x, y;
};
Cost cost(const ColumnMapArgs& args);
void map_columns(const ColumnMapArgs& args);

/// dx += the gradient of the map for the same x. dy as y; dx [R,C] f32 (f64 for x of f64).
struct ColumnMapGradArgs {
  ColumnMap map;
  Tensor x, dy, dx;
};
Cost cost(const ColumnMapGradArgs& args);
void map_columns_grad(const ColumnMapGradArgs& args);

}  // namespace lithe::kernels
