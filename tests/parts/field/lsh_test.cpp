#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

int64_t pairs_of(int64_t rounds, uint64_t seed) {
  int64_t sum = 0;
  const auto pairs = FieldAttention(cat("{type: lsh, buckets: 8, rounds: ", rounds, "}")).pairs(60, seed);
  for (const auto& row : pairs[0]) sum += std::count(row.begin(), row.end(), 1);
  return sum;
}

// oracle: sparse.lsh
TEST(LshField, MoreRoundsShowMore) {
  EXPECT_LT(pairs_of(1, 1), pairs_of(4, 1));
  EXPECT_LT(pairs_of(4, 1), pairs_of(60, 1));
  EXPECT_LT(pairs_of(1, 1), 60 * 61 / 2 / 3);
}

// The same rows twice: their queries and keys fall into the same buckets.
// oracle: sparse.lsh
TEST(LshField, EqualKeysAreSeenTogether) {
  FieldAttention lsh("{type: lsh, buckets: 8, rounds: 2}", false);
  Tensor x = kit::normal({40, 8}, DType::f64, 1);
  for (int64_t i = 0; i < 20 * 8; ++i) set_value(x, 20 * 8 + i, 3 * value_at(x, i));  // the length does not matter
  const Tensor weights = lsh.mixer->maps({Var(x), Sequences::single(40), nullptr}).weights;
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t j = 0; j < 20; ++j) {
      if (i % 20 == j) continue;  // the own key is always seen
      EXPECT_EQ(value_at(weights, i * 40 + j) > 0, value_at(weights, i * 40 + j + 20) > 0) << i << " " << j;
    }
}

TEST(LshField, Decodes) { expect_decodes("{type: lsh, rounds: 2, buckets: 6}"); }

TEST(LshField, KeepsBuckets) {
  expect_keeps_labels("{type: lsh, rounds: 3, buckets: 4}", 2 * 3, 2);
  expect_keeps_labels("{type: lsh, rounds: 1, buckets: 258}", 4);
}

}  // namespace
}  // namespace lithe
