// Neighbouring rows that belong together: blocks of one size, or spans that a column names [TB 6.2.4].
#pragma once

#include "lithe/nn/pass.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// The column `name` of the input, i32, a number for each of `rows` rows: neighbours with one number are one span, a
/// negative number is of its row alone.
inline const Tensor& span_numbers(const Pass& pass, const std::string& name, int64_t rows, const char* part) {
  const Tensor* column = pass.given(name);
  check(column, part, "reads spans from column '", name, "', which the input does not have");
  check(column->numel() == rows, part, "column '", name, "' has ", column->numel(), " numbers for ", rows,
        " rows; it must have one for each");
  return *column;
}

/// The row, not the first of its text, is of the span of the one before it.
inline bool continues_span(const int32_t* numbers, int64_t row) {
  return numbers[row] >= 0 && numbers[row] == numbers[row - 1];
}

struct RowGroups {
  Sequences groups;             // of the rows, one a group
  Sequences sequences;          // of the groups, one a text
  std::vector<int64_t> row_of;  // [N] the group of each row

  /// `same(row)`: the row, not the first of its text, belongs to the group of the one before it.
  template <class Same>
  static RowGroups of(const Sequences& text, Same same) {
    const Device device = text.positions().device();
    RowGroups out;
    std::vector<int64_t> groups{0}, offsets{0};
    for (int64_t b = 0; b < text.count(); ++b) {
      for (int64_t row = text.offset(b); row < text.offset(b + 1); ++row) {
        if (row == text.offset(b) || !same(row)) groups.push_back(row);
        groups.back() = row + 1;
        out.row_of.push_back(int64_t(groups.size()) - 2);
      }
      offsets.push_back(int64_t(groups.size()) - 1);
    }
    out.groups = Sequences(groups, {}, device);
    out.sequences = Sequences(offsets, {}, device);
    return out;
  }
  /// Each `size` rows of a text, the last group being smaller where they do not divide.
  static RowGroups blocks(const Sequences& text, int64_t size) {
    std::vector<int64_t> begins(static_cast<size_t>(text.rows()));
    for (int64_t b = 0; b < text.count(); ++b)
      for (int64_t row = text.offset(b); row < text.offset(b + 1); ++row) begins[size_t(row)] = text.offset(b);
    return of(text, [&](int64_t row) { return (row - begins[size_t(row)]) % size != 0; });
  }
  /// The spans that the column `name` of the input names. On meta, where there are no numbers, each row is a group: no
  /// text has more. `part` is named in errors.
  static RowGroups spans(const Sequences& text, const Pass& pass, const std::string& name, const char* part) {
    const Tensor& column = span_numbers(pass, name, text.rows(), part);
    if (column.is_meta()) return of(text, [](int64_t) { return false; });
    return of(text, [of_row = column.data<int32_t>()](int64_t row) { return continues_span(of_row, row); });
  }
};

}  // namespace lithe
