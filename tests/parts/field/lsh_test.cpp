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

// Chunks of all tokens show everything in each round: full attention, however many rounds there are.
// oracle: sparse.lsh
TEST(LshField, ChunksOfAllTokensAreFullAttention) {
  for (const bool causal : {true, false})
    for (const int rounds : {1, 3})
      expect_same_field(cat("{type: lsh, form: chunked, chunk: 9, rounds: ", rounds, "}"), "full", causal);
}

// One bucket would be chunks by position. With several rounds a key that two of them show counts twice.
// oracle: sparse.lsh
TEST(LshField, RoundsAreJoinedByTheirSumsOfExponentials) {
  const int64_t T = 20;
  const Tensor x = kit::normal({T, 8}, DType::f64, 1);
  const SubLayerInput in{Var(x), Sequences::single(T), nullptr};
  FieldAttention lsh("{type: lsh, form: chunked, chunk: 4, rounds: 3, buckets: 6}", false), full("full", false);
  const MixerMaps maps = lsh.mixer->maps(in), logits = full.mixer->maps(in);
  const Tensor values =
                   kit::product(kit::product(x, lsh.bench["part.heads.v.weight"]), lsh.bench["part.output.weight"]),
               y = lsh(x);
  bool twice = false;
  for (int64_t i = 0; i < T; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < T; ++j) sum += value_at(maps.weights, i * T + j);
    EXPECT_NEAR(sum, 1, 1e-6);
    for (int64_t c = 0; c < 8; ++c) {
      double want = 0;
      for (int64_t j = 0; j < T; ++j) want += value_at(maps.weights, i * T + j) * value_at(values, j * 8 + c);
      EXPECT_NEAR(value_at(y, i * 8 + c), want, 1e-5);
    }
    // Weights are whole multiples of the exponentials of plain logits, up to the number of rounds.
    double one = 1e300;
    for (int64_t j = 0; j < T; ++j)
      if (const double w = value_at(maps.weights, i * T + j); w > 0)
        one = std::min(one, w / value_at(logits.weights, i * T + j));
    for (int64_t j = 0; j < T; ++j) {
      const double times = value_at(maps.weights, i * T + j) / value_at(logits.weights, i * T + j) / one;
      EXPECT_NEAR(times * 6, std::round(times * 6), 1e-3);  // of 1, 2 and 3
      twice = twice || times > 1.5;
    }
  }
  EXPECT_TRUE(twice);
}

// oracle: sparse.lsh
TEST(LshField, ATokenSeesItselfWhenAlone) {
  for (const std::string form : {"", "form: chunked, chunk: 3, "}) {
    const auto with = FieldAttention(cat("{type: lsh, ", form, "rounds: 2, buckets: 8}")).pairs(40)[0],
               without = FieldAttention(cat("{type: lsh, ", form, "rounds: 2, buckets: 8, self_last_resort: true}"))
                             .pairs(40)[0];
    for (size_t i = 0; i < 40; ++i) {
      const bool alone = std::count(with[i].begin(), with[i].end(), 1) == 1;
      for (size_t j = 0; j < 40; ++j) EXPECT_EQ(without[i][j], i == j ? int(alone) : with[i][j]) << i << " " << j;
    }
    EXPECT_TRUE(without[0][0]);
    expect_decodes(cat("{type: lsh, ", form, "rounds: 2, buckets: 6, self_last_resort: true}"));
  }
}

TEST(LshField, ChunksDecode) { expect_decodes("{type: lsh, form: chunked, rounds: 2, buckets: 6, chunk: 5}"); }

TEST(LshField, ChunksHaveNoCrossForm) {
  EXPECT_NE(kit::coded_error_of([] { FieldCrossing("{type: lsh, form: chunked}"); }).find("has no cross form"),
            std::string::npos);
}

TEST(LshField, KeepsBuckets) {
  expect_keeps_labels("{type: lsh, rounds: 3, buckets: 4}", 2 * 3, 2);
  expect_keeps_labels("{type: lsh, rounds: 1, buckets: 258}", 4);
}

}  // namespace
}  // namespace lithe
