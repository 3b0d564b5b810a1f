// The specification of columns.h, and its only implementation: parameter matrices are small beside the rows of a batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "lithe/kernels/columns/columns.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

/// The map y of a column x; `norm` is what it was divided by.
struct MappedColumn {
  std::vector<double> y;
  double norm = 1;
  bool clamped = false;  // the norm is the constant 1e-8
};

template <class T>
MappedColumn map_column(ColumnMap map, const T* x, int64_t rows, int64_t stride) {
  MappedColumn out{std::vector<double>(size_t(rows))};
  double largest = -INFINITY, sum = 0, squares = 0;
  for (int64_t r = 0; r < rows; ++r) {
    largest = std::max(largest, double(x[r * stride]));
    sum += double(x[r * stride]);
  }
  for (int64_t r = 0; r < rows; ++r) {
    double& y = out.y[size_t(r)];
    y = map == ColumnMap::softmax ? std::exp(double(x[r * stride]) - largest)
                                  : double(x[r * stride]) - sum / double(rows);
    squares += map == ColumnMap::softmax ? y : y * y;
  }
  out.norm = map == ColumnMap::softmax ? squares : std::sqrt(squares);
  out.clamped = map == ColumnMap::standardize && out.norm <= 1e-8;
  if (out.clamped) out.norm = 1e-8;
  for (double& y : out.y) y /= out.norm;
  return out;
}

// softmax: y = e^x / sum e^x;  standardize: y = (x - mean x) / max(|x - mean x|, 1e-8)
template <class T, class O>
void map_columns(const ColumnMapArgs& a) {
  const int64_t R = a.x.rows(), C = a.x.cols();
  const T* x = a.x.data<T>();
  O* y = a.y.data<O>();
  for (int64_t c = 0; c < C; ++c) {
    const MappedColumn column = map_column(a.map, x + c, R, C);
    for (int64_t r = 0; r < R; ++r) y[r * C + c] = O(column.y[size_t(r)]);
  }
}

// softmax: dx += y (dy - y . dy);  standardize: dx += (dy - mean dy - y (y . dy)) / |x - mean x|, without its last term
// where the norm is clamped
template <class T, class O>
void map_columns_grad(const ColumnMapGradArgs& a) {
  const int64_t R = a.x.rows(), C = a.x.cols();
  const T* x = a.x.data<T>();
  const O* dy = a.dy.data<O>();
  Wide<T>* dx = a.dx.data<Wide<T>>();
  for (int64_t c = 0; c < C; ++c) {
    const MappedColumn column = map_column(a.map, x + c, R, C);
    double dot = 0, mean = 0;
    for (int64_t r = 0; r < R; ++r) {
      dot += column.y[size_t(r)] * double(dy[r * C + c]);
      mean += double(dy[r * C + c]) / double(R);
    }
    if (column.clamped) dot = 0;
    for (int64_t r = 0; r < R; ++r) {
      const double y = column.y[size_t(r)], g = double(dy[r * C + c]);
      put(dx[r * C + c], a.map == ColumnMap::softmax ? y * (g - dot) : (g - mean - y * dot) / column.norm, true);
    }
  }
}

}  // namespace lithe::kernels::ref
