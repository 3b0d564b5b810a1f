#include "lithe/parts/common/patch_positions.h"

#include <algorithm>
#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/embedding.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct Tap4 {
  int64_t index[4];
  double share[4];
};

// The cubic convolution kernel of Keys with a = -0.75.
double cubic(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

std::vector<Tap4> taps(int64_t from, int64_t to) {
  std::vector<Tap4> out;
  for (int64_t i = 0; i < to; ++i) {
    const double at = (double(i) + 0.5) * double(from) / double(to) - 0.5, floor = std::floor(at);
    Tap4 tap;
    for (int64_t k = 0; k < 4; ++k) {
      tap.index[k] = std::clamp<int64_t>(int64_t(floor) + k - 1, 0, from - 1);
      tap.share[k] = cubic(at - floor - double(k - 1));
    }
    out.push_back(tap);
  }
  return out;
}

}  // namespace

Tensor bicubic_shares(const PatchGrid& from, const PatchGrid& to, DType dtype, Device device) {
  const Tensor out = zeros({to.cells(), from.cells()}, dtype, device);
  if (out.is_meta()) return out;
  const std::vector<Tap4> down = taps(from.rows, to.rows), across = taps(from.columns, to.columns);
  dispatch_float(dtype, [&]<class T>() {
    T* share = out.data<T>();
    for (int64_t y = 0; y < to.rows; ++y)
      for (int64_t x = 0; x < to.columns; ++x, share += from.cells())
        for (int64_t i = 0; i < 4; ++i)
          for (int64_t j = 0; j < 4; ++j) {
            T& cell = share[down[size_t(y)].index[i] * from.columns + across[size_t(x)].index[j]];
            cell = T(double(cell) + down[size_t(y)].share[i] * across[size_t(x)].share[j]);
          }
  });
  return out;
}

PatchPositions::PatchPositions(const Scope& scope, const Options& options, int64_t hidden_size) : options_(options) {
  const Axis hidden = Axis::hidden(hidden_size);
  if (options.position == "learned")
    table_ = (scope / "position").parameter("weight", {options.table.cells(), hidden}, InitRole::embedding);
  if (options.modality_row) modality_ = scope.parameter("modality", {1, hidden}, InitRole::embedding);
}

Var PatchPositions::add_to(const Var& rows) const {
  const int64_t cells = options_.grid.cells();
  check(rows.rows() % cells == 0, "embedding", "pictures of ", options_.grid.rows, " x ", options_.grid.columns,
        " patches have ", cells, " rows each, got ", rows.rows(), " in all");
  Var out = rows;
  const auto ids = [&](int64_t of) {
    const Tensor made = empty({rows.rows()}, DType::i32, rows.value().device());
    if (!made.is_meta())
      for (int64_t i = 0; i < made.numel(); ++i) made.data<int32_t>()[i] = int32_t(i % of);
    return made;
  };
  if (table_) {
    Var table = table_->var();
    if (options_.grid != options_.table)
      table = linear(Var(bicubic_shares(options_.table, options_.grid, table.dtype(), table.value().device())), table);
    out = add_rows(out, table, ids(cells));
  }
  if (modality_) out = add_rows(out, modality_->var(), ids(1));
  return out;
}

}  // namespace lithe
