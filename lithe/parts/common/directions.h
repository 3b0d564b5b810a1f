// Recurrent mixers of models that see both ways: half of their heads or channels read each sequence from its end.
#pragma once

#include "lithe/ops/basic.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// Each sequence's rows from the last to the first.
inline std::vector<int64_t> turned_rows(const Sequences& s) {
  std::vector<int64_t> rows;
  for (int64_t b = 0; b < s.count(); ++b)
    for (int64_t row = s.offset(b + 1); row-- > s.offset(b);) rows.push_back(row);
  return rows;
}

/// The second half of the columns with each sequence's rows from the last to the first; the first half as it is. Twice
/// is the identity. `groups`: the same in each of as many equal parts of the columns (real and imaginary ones).
inline Var half_turned(const Var& x, const Sequences& sequences, int64_t groups = 1) {
  const std::vector<int64_t> turned = turned_rows(sequences);
  const int64_t parts = 2 * groups;
  std::vector<int64_t> rows;
  if (groups == 1 && x.cols() % 2) {  // the column in the middle stays
    for (int64_t i = 0; i < x.rows(); ++i)
      for (int64_t c = 0; c < x.cols(); ++c) rows.push_back((c > x.cols() / 2 ? turned[size_t(i)] : i) * x.cols() + c);
    return reshape(pick_rows(reshape(x, {x.rows() * x.cols(), 1}), rows), x.shape());
  }
  for (int64_t i = 0; i < x.rows(); ++i)
    for (int64_t p = 0; p < parts; ++p) rows.push_back((p % 2 ? turned[size_t(i)] : i) * parts + p);
  return reshape(pick_rows(reshape(x, {x.rows() * parts, x.cols() / parts}), rows), x.shape());
}

/// For constructors: what is halved must be even.
inline void check_halves(const char* mixer, const char* what, int64_t count, bool causal) {
  check_usage(causal || count % 2 == 0, mixer, what, " ", count,
              " is odd: in a model that sees both ways one half reads onward and one back; give an even number");
}

}  // namespace lithe
