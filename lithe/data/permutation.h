// The order of an epoch.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "lithe/base/random.h"

namespace lithe {

/// 0 to n - 1 in an order that `key` decides.
inline std::vector<int64_t> permutation(const RandomKey& key, int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), int64_t(0));
  for (auto i = uint64_t(n); i-- > 1;) std::swap(out[i], out[random_below(key, i, i + 1)]);
  return out;
}

}  // namespace lithe
