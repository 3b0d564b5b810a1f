// Singular values of attention maps: how few numbers a map could be made of.
#pragma once

#include <span>
#include <vector>

#include "lithe/analyze/indicators.h"

namespace lithe::analyze {

/// a = sum over k of values[k] u_k v_k^T, values falling. u and v hold u_k and v_k one after another.
struct SingularValues {
  int64_t size = 0;
  std::vector<double> values, u, v;
  /// The least rank whose values have this share of the sum of all squares.
  int64_t rank_of(double share) const;
  /// The nearest matrix of that rank [size, size]: its squared distance from a is the sum of the squares left out.
  std::vector<double> truncated(int64_t rank) const;
};
/// Of a square matrix a [n, n]: O(n^3).
SingularValues singular_values(std::span<const float> a, int64_t n);

/// Longer maps are not decomposed.
constexpr int64_t kLongestRanks = 256;
/// The rank that each head's map needs for 90 and 99 % of its squares; empty for maps longer than kLongestRanks.
struct MapRanks {
  std::vector<int64_t> most, nearly_all;
};
MapRanks map_ranks(const AttentionMaps& maps);

}  // namespace lithe::analyze
