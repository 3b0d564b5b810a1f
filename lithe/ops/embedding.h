// Rows of tables by id.
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// Whether ids may be -1, for no row: zeros, or nothing added.
enum class MissingIds { refused, no_row };

/// out [N,D] = factor * table[ids]; ids i32 [N], each in [0, V). `dtype` of the rows. Rows of id `padding`
/// get no gradient (-1: none).
Var embed(const Var& table, const Tensor& ids, DType dtype, double factor = 1, int64_t padding = -1,
          MissingIds missing = MissingIds::refused);

/// x + table[positions]: learned positions. positions i32 [N], each below the table's rows.
Var add_rows(const Var& x, const Var& table, const Tensor& positions, MissingIds missing = MissingIds::refused);

/// For operations: adds factor * dy[n] to the gradient of row ids[n] of x, but for rows of id `padding` and below 0.
void give_to_rows(Grads& g, const GradRef& x, const Tensor& dy, const Tensor& ids, double factor = 1,
                  int64_t padding = -1);

}  // namespace lithe
