// Small pieces of gates: what is not forgotten, and numbers of a head beside every row.
#pragma once

#include <cmath>

#include "lithe/nn/module.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/pointwise.h"

namespace lithe {

/// A constant.
inline Tensor filled(const Shape& shape, double value, DType dtype, Device device) {
  const Tensor out = empty(shape, dtype, device);
  for (int64_t i = 0; i < out.numel() && !out.is_meta(); ++i) set_value(out, i, value);
  return out;
}

/// 1 - e^x for logs x of what is kept.
inline Var rest_of(const Var& log) {
  return row_affine(scale(pointwise(kernels::Pointwise::exp, log), -1), {},
                    Var(filled({log.cols()}, 1, log.dtype(), log.device())));
}

/// x [h] as every row of [rows, h].
inline Var every_row(const Var& x, int64_t rows) {
  return row_affine(Var(filled({rows, x.value().numel()}, 1, x.dtype(), x.device())), x, {});
}

/// Gives a new parameter one value.
inline void start_with(const Parameter* p, double value) {
  const Tensor& x = p->master.value();
  for (int64_t i = 0; i < x.numel() && !x.is_meta(); ++i) set_value(x, i, value);
}

/// log(a / (1 - a))
inline double logit_of(double a) { return std::log(a / (1 - a)); }

}  // namespace lithe
