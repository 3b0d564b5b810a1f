#include "lithe/ops/feature_map.h"

#include <cmath>

#include "lithe/base/random.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(FeatureMap, Gradients) {
  const Tensor x = kit::normal({4, 6}, DType::f64, 1), directions = orthogonal_directions(3, 5, 1, 0);
  kit::expect_gradients([](const std::vector<Var>& in) { return softmax_features(in[0], 2); }, {x});
  kit::expect_gradients([&](const std::vector<Var>& in) { return random_features(in[0], directions, 2, false); }, {x});
}

TEST(FeatureMap, DirectionsAreOrthogonalInBlocksAndOfNormalLength) {
  const Tensor w = orthogonal_directions(4, 10, 3, 2);
  const auto dot = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t c = 0; c < 4; ++c) sum += value_at(w, c * 10 + a) * value_at(w, c * 10 + b);
    return sum;
  };
  for (int64_t a = 0; a < 10; ++a)
    for (int64_t b = a / 4 * 4; b < a; ++b) EXPECT_NEAR(dot(a, b), 0, 1e-12);
  double squares = 0;  // their mean is d, with deviation sqrt(2 d / draws)
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Tensor one = orthogonal_directions(4, 4, seed, 0);
    for (int64_t i = 0; i < 16; ++i) squares += value_at(one, i) * value_at(one, i) / 2000;
  }
  EXPECT_NEAR(squares, 4, 4 * std::sqrt(8.0 / 2000));
}

// oracle: kernel.favor
TEST(FeatureMap, ProductsOfRandomFeaturesAreExponentialsInTheMean) {
  const int64_t d = 4;
  const Tensor q = kit::normal({1, d}, DType::f64, 1), k = kit::normal({1, d}, DType::f64, 2);
  double product = 0;
  for (int64_t c = 0; c < d; ++c) product += value_at(q, c) * value_at(k, c);
  const double want = std::exp(product / std::sqrt(double(d)));
  const auto error = [&](int64_t m, double* spread) {
    double sum = 0, squares = 0;
    const int draws = 2000;
    for (int seed = 0; seed < draws; ++seed) {
      const Tensor w = orthogonal_directions(d, m, uint64_t(seed), 0);
      const Tensor a = random_features(q, w, 1, false).value(), b = random_features(k, w, 1, false).value();
      double estimate = 0;
      for (int64_t j = 0; j < m; ++j) {
        EXPECT_GT(value_at(a, j), 0);
        estimate += value_at(a, j) * value_at(b, j);
      }
      sum += estimate, squares += estimate * estimate;
    }
    const double mean = sum / draws;
    *spread = std::sqrt(squares / draws - mean * mean);
    EXPECT_NEAR(mean, want, 3 * *spread / std::sqrt(double(draws))) << m;
  };
  double few = 0, many = 0;
  error(4, &few);
  error(64, &many);
  EXPECT_NEAR(few / many, 4, 0.8);  // sixteen times as many blocks of directions: a quarter of the deviation
}

// oracle: kernel.favor
TEST(RandomFeatures, OfKeysOfWholeSequencesNeverOverflowAndDifferByOneFactor) {
  const int64_t heads = 2, d = 4, m = 6;
  const Tensor directions = orthogonal_directions(d, m, 1, 0);
  const Sequences sequences({0, 3, 7});
  const Tensor x = kit::normal({7, heads * d}, DType::f64, 1), far = clone(x);
  const Tensor plain = random_features(x, directions, heads, false).value(),
               most = random_features(x, directions, heads, sequences).value();
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t head = 0; head < heads; ++head) {
      const auto at = [&](int64_t row, int64_t c) { return (row * heads + head) * m + c; };
      const double factor = value_at(most, at(sequences.offset(b), 0)) / value_at(plain, at(sequences.offset(b), 0));
      double largest = 0;
      for (int64_t row = sequences.offset(b); row < sequences.offset(b + 1); ++row)
        for (int64_t c = 0; c < m; ++c) {
          EXPECT_NEAR(value_at(most, at(row, c)), factor * value_at(plain, at(row, c)), 1e-12);
          largest = std::max(largest, value_at(most, at(row, c)));
        }
      EXPECT_NEAR(largest, 1 / std::sqrt(double(m)), 1e-12);
    }
  for (int64_t i = 0; i < far.numel(); ++i) set_value(far, i, 40 * value_at(x, i));
  const Tensor huge = random_features(far, directions, heads, sequences).value();
  for (int64_t i = 0; i < huge.numel(); ++i) EXPECT_LE(value_at(huge, i), 1);
}

}  // namespace
}  // namespace lithe
