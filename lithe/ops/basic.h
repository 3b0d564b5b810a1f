// Sums, products, scalings, casts, dropout: one pass each.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/base/random.h"

namespace lithe {

/// alpha a + beta b, same shapes.
Var add(const Var& a, const Var& b, double alpha = 1, double beta = 1);
/// a * b elementwise, same shapes.
Var mul(const Var& a, const Var& b);
/// alpha a.
Var scale(const Var& a, double alpha);
/// x[n,c] * weight[c mod C] + bias[c mod C]; either may be undefined. weight and bias [C], C divides the columns.
Var row_affine(const Var& x, const Var& weight, const Var& bias);
/// The same values in another dtype; the gradient comes back in x's.
Var cast(const Var& x, DType dtype);
/// x / (1-p) where kept, 0 elsewhere; the identity when not training() or with p = 0. The mask is a pure function
/// of `key`, so that a recomputed forward pass draws the same.
Var dropout(const Var& x, double p, const RandomKey& key);
/// The sum of all elements: a scalar [1], accumulated in double.
Var sum(const Var& x);
/// The same numbers with another shape.
Var reshape(const Var& x, const Shape& shape);
/// Rows [begin, end) of x, without a copy, and rows of several one after another.
Var slice_rows(const Var& x, int64_t begin, int64_t end);
Var concatenate_rows(const std::vector<Var>& parts);
/// Rows of x picked by index (the gradient adds to the rows picked).
Var pick_rows(const Var& x, const std::vector<int64_t>& rows);

}  // namespace lithe
