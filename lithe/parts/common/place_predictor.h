// Where in a text a query looks, predicted from its row [Luong et al. 2015].
#pragma once

#include <cmath>

#include "lithe/nn/attention_slots.h"
#include "lithe/ops/basic.h"
#include "lithe/parts/common/elementwise.h"

namespace lithe {

/// tanh(x W) v: a number for each row, [N, 1] in the wide type of x.
class RowPredictor {
 public:
  RowPredictor() = default;
  /// `width`: hidden channels; 0: as many as the rows have.
  RowPredictor(const Scope& scope, int64_t hidden_size, int64_t width) {
    const Axis d = Axis::hidden(hidden_size), hidden = width ? Axis::ffn(width) : d;
    hidden_ = Linear(scope / "hidden", d, hidden, false), out_ = Linear(scope / "out", hidden, 1, false);
  }
  bool defined() const { return out_.weight != nullptr; }
  Var operator()(const Var& x) const {
    const Var h = each_number(
        "tanh", wide(hidden_(x)), [](double z) { return std::tanh(z); }, [](double, double y) { return 1 - y * y; });
    return wide(out_(h.dtype() == x.dtype() ? h : cast(h, x.dtype())));
  }

 private:
  Linear hidden_, out_;
  static Var wide(const Var& x) { return cast(x, wide_of(x.dtype())); }
};

/// One number a query, [N, 1], as f(sequence, row) says.
template <class F>
Var number_by_row(const FieldInput& in, F&& f) {
  const Tensor x = empty({in.x.rows(), 1}, wide_of(in.x.dtype()), in.x.device());
  if (x.is_meta()) return x;
  for (int64_t b = 0; b < in.queries.count(); ++b)
    for (int64_t i = in.queries.offset(b); i < in.queries.offset(b + 1); ++i) set_value(x, i, f(b, i));
  return x;
}

/// The place (S - 1) sigmoid(predictor(x)) of each query among its S keys, counted from 0: [N, 1].
inline Var predicted_place(const RowPredictor& predictor, const FieldInput& in) {
  const Var share = each_number("sigmoid", predictor(in.x), sigmoid, [](double, double y) { return y * (1 - y); });
  return mul(share, number_by_row(in, [&](int64_t b, int64_t) { return double(in.keys[size_t(b)].count - 1); }));
}

}  // namespace lithe
