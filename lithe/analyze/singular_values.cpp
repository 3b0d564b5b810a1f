#include "lithe/analyze/singular_values.h"

#include <algorithm>

#include "lithe/base/threads.h"
#include "lithe/tensor/linear_algebra.h"

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
  Decomposed of = decompose(std::vector<double>(a.begin(), a.end()), n);
  return {.size = n, .values = std::move(of.values), .u = std::move(of.u), .v = std::move(of.v)};
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
