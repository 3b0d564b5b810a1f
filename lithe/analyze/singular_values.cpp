#include "lithe/analyze/singular_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/base/threads.h"

namespace lithe::analyze {

int64_t SingularValues::rank_of(double share) const {
  double all = 0, sum = 0;
  for (const double s : values) all += s * s;
  int64_t rank = 0;
  while (rank < size && sum < share * all * (1 - 1e-12)) sum += values[size_t(rank)] * values[size_t(rank)], ++rank;
  return rank;
}

std::vector<double> SingularValues::truncated(int64_t rank) const {
  std::vector<double> out(size_t(size * size), 0.0);
  for (int64_t k = 0; k < std::min(rank, size); ++k)
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        out[size_t(i * size + j)] += values[size_t(k)] * u[size_t(k * size + i)] * v[size_t(k * size + j)];
  return out;
}

// spec: lowdim.svd | analysis | singular values of attention maps, and maps of lower rank | TB 6.4.3(1)
SingularValues singular_values(std::span<const float> a, int64_t n) {
  check(int64_t(a.size()) == n * n, "singular_values", "a square matrix of ", n, " rows has ", n * n, " numbers, got ",
        a.size());
  constexpr int kSweeps = 40;
  // Columns of w = a v become orthogonal; columns stand one after another.
  std::vector<double> w(size_t(n * n)), v(size_t(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) w[size_t(j * n + i)] = double(a[size_t(i * n + j)]);
  for (int64_t i = 0; i < n; ++i) v[size_t(i * n + i)] = 1;
  bool turned = true;
  for (int sweep = 0; sweep < kSweeps && turned; ++sweep) {
    turned = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        double *x = &w[size_t(p * n)], *y = &w[size_t(q * n)], xx = 0, yy = 0, xy = 0;
        for (int64_t i = 0; i < n; ++i) xx += x[i] * x[i], yy += y[i] * y[i], xy += x[i] * y[i];
        if (std::abs(xy) <= 1e-14 * std::sqrt(xx * yy) || xy == 0) continue;
        turned = true;
        const double zeta = (yy - xx) / (2 * xy),
                     t = (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta)),
                     c = 1 / std::sqrt(1 + t * t), s = c * t;
        const auto turn = [&](double* one, double* other) {
          for (int64_t i = 0; i < n; ++i) {
            const double left = one[i], right = other[i];
            one[i] = c * left - s * right;
            other[i] = s * left + c * right;
          }
        };
        turn(x, y);
        turn(&v[size_t(p * n)], &v[size_t(q * n)]);
      }
  }
  std::vector<double> lengths;
  for (int64_t k = 0; k < n; ++k) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += w[size_t(k * n + i)] * w[size_t(k * n + i)];
    lengths.push_back(std::sqrt(sum));
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return lengths[size_t(i)] > lengths[size_t(j)]; });
  SingularValues out{.size = n, .values = {}, .u = {}, .v = {}};
  for (const int64_t k : order) {
    const double length = lengths[size_t(k)];
    out.values.push_back(length);
    for (int64_t i = 0; i < n; ++i) {
      out.u.push_back(length > 0 ? w[size_t(k * n + i)] / length : 0);
      out.v.push_back(v[size_t(k * n + i)]);
    }
  }
  return out;
}

MapRanks map_ranks(const AttentionMaps& maps) {
  MapRanks out;
  if (maps.length > kLongestRanks) return out;
  out.most.resize(size_t(maps.heads));
  out.nearly_all.resize(size_t(maps.heads));
  parallel_for(maps.heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head) {
      const auto size = size_t(maps.length * maps.length);
      const SingularValues of = singular_values(maps.weights.subspan(size_t(head) * size, size), maps.length);
      out.most[size_t(head)] = of.rank_of(0.9);
      out.nearly_all[size_t(head)] = of.rank_of(0.99);
    }
  });
  return out;
}

}  // namespace lithe::analyze
