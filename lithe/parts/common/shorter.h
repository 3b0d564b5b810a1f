// Some of the rows of each sequence, for compressors: which stay, and where they stood.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lithe/nn/slots.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {

/// The rows `kept`, increasing, of which some are of every sequence that has any. They keep their positions, and how
/// much they are there; nothing stands for the others.
inline Compressor::Shorter keep_rows(const Rows& x, const std::vector<int64_t>& kept) {
  Compressor::Shorter out{x, std::vector<int64_t>(size_t(x.sequences.rows()), -1)};
  if (int64_t(kept.size()) == x.sequences.rows()) {
    std::iota(out.row_of.begin(), out.row_of.end(), int64_t(0));
    return out;
  }
  std::vector<int64_t> offsets{0};
  size_t next = 0;
  for (int64_t b = 0; b < x.sequences.count(); ++b) {
    for (; next < kept.size() && kept[next] < x.sequences.offset(b + 1); ++next)
      out.row_of[size_t(kept[next])] = int64_t(next);
    offsets.push_back(int64_t(next));
  }
  const Tensor& all = x.sequences.positions();
  const Shape shape{int64_t(kept.size())};
  std::vector<int32_t> stand;
  for (const int64_t row : kept) stand.push_back(all.is_meta() ? 0 : all.data<int32_t>()[row]);
  out.rows.sequences = Sequences(offsets, {}, x.x.device())
                           .at(all.is_meta() ? empty(shape, DType::i32, Device::meta) : tensor_of(shape, stand));
  out.rows.x = pick_rows(x.x, kept);
  if (x.log_presence.defined()) out.rows.log_presence = pick_rows(x.log_presence, kept);
  return out;
}

/// How much a row counts, for compressors that choose: [N, 1], f32 (f64 for f64). `attention`: the weight that it gets
/// in the layer below, the mean over heads and queries, so that those of a sequence sum to 1; `norm`: its length.
inline Var importance_of(const Rows& x, const Pass& pass, const std::string& kind, const char* part) {
  if (kind == "attention") {
    const Var received = pass.get({Tap::Kind::received, pass.layer() - 1});
    check_usage(received.defined(), part, "looks at the attention of the layer below layer ", pass.layer() + 1,
                ", which has none of its own, or was left out; give that layer mixer attention, or set importance: "
                "norm");
    check(received.rows() == x.x.rows(), part, "the layer below has attention to ", received.rows(), " rows, and ",
          x.x.rows(), " enter this one");
    return received;
  }
  const DType wide = x.x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor out = empty({x.x.rows(), 1}, wide, x.x.device());
  for (int64_t row = 0; row < x.x.rows() && !out.is_meta(); ++row) {
    double sum = 0;
    for (int64_t c = row * x.x.cols(); c < (row + 1) * x.x.cols(); ++c) {
      const double value = value_at(x.x.value(), c);
      sum += value * value;
    }
    set_value(out, row, std::sqrt(sum));
  }
  return Var(out);
}

/// The rows [begin, end) in the order of their importance, of equals the earlier first; `first` before all.
inline std::vector<int64_t> by_importance(const Tensor& importance, int64_t begin, int64_t end, bool first) {
  std::vector<int64_t> rows(size_t(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  if (importance.is_meta()) return rows;
  std::stable_sort(rows.begin() + (first && !rows.empty()), rows.end(),
                   [&](int64_t a, int64_t b) { return value_at(importance, a) > value_at(importance, b); });
  return rows;
}

}  // namespace lithe
