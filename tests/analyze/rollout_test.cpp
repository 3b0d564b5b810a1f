#include "lithe/analyze/rollout.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lithe::analyze {
namespace {

LayerView layer_of(const std::vector<float>& weights, int64_t heads) {
  LayerView out;
  const auto tokens = int64_t(std::llround(std::sqrt(double(weights.size()) / double(heads))));
  out.maps = {.heads = heads, .weights = tensor_of({heads * tokens, tokens}, weights)};
  return out;
}

TEST(Rollout, IsTheProductOfTheMapsWithTheWayAround) {
  // Two tokens. Layer 1: the first takes all from the second. Layer 2, two heads: the means are 0.25 and 0.75.
  const LayerView one = layer_of({0, 1, 0, 1}, 1), two = layer_of({0.5, 0.5, 0, 1, 0, 1, 1, 0}, 2);
  // (I + A1)/2 = [.5 .5; 0 1], (I + A2)/2 = [.625 .375; .25 .75].
  const std::vector<double> want{0.625 * 0.5, 0.625 * 0.5 + 0.375, 0.25 * 0.5, 0.25 * 0.5 + 0.75};
  const std::vector<double> got = attention_rollout({one, two}, 2);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
  EXPECT_EQ(attention_rollout({LayerView()}, 2), (std::vector<double>{1, 0, 0, 1}));
  EXPECT_THROW(attention_rollout({one}, 3), Error);
}

}  // namespace
}  // namespace lithe::analyze
