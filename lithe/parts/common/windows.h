// Rows around each other, side by side, as a convolution over frames or pictures reads them.
#pragma once

#include <vector>

#include "lithe/ops/basic.h"

namespace lithe {

/// Rows [N, C] as windows of `each` rows side by side, [from.size() / each, each C]: `from` has the rows of one window
/// after another; N is a row of zeros.
inline Var windows_of(const Var& rows, const std::vector<int64_t>& from, int64_t each) {
  const Var zero(zeros({1, rows.cols()}, rows.dtype(), rows.value().device()));
  return reshape(pick_rows(concatenate_rows({rows, zero}), from), {int64_t(from.size()) / each, each * rows.cols()});
}

}  // namespace lithe
