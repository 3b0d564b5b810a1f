#include "lithe/ops/ngram_memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/candidate_scores.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

Tensor recent_of(const std::vector<std::vector<int>>& rows) {
  const Tensor out = empty({int64_t(rows.size()), int64_t(rows[0].size())}, DType::i32);
  int32_t* to = out.data<int32_t>();
  for (const auto& row : rows) to = std::copy(row.begin(), row.end(), to);
  return out;
}
std::vector<int> numbers_of(const Tensor& x) { return {x.data<int32_t>(), x.data<int32_t>() + x.numel()}; }

// Numbers of a program in Python, with exact integers.
TEST(NgramMemory, HashesAreThoseOfTheFormula) {
  const NgramHashes hashes = NgramHashes::of({.max_size = 3, .heads = 2, .buckets = 5});
  EXPECT_EQ(hashes.multipliers, (std::vector<int64_t>{2802244911, 146079145, 3620509301}));
  EXPECT_EQ(hashes.primes, (std::vector<int64_t>{5, 7, 11, 13}));
  EXPECT_EQ(hashes.rows(), 36);
  EXPECT_EQ(numbers_of(ngram_memory_rows(recent_of({{3, -1, -1}, {0, 3, -1}, {6, 0, 3}}), hashes)),
            (std::vector<int>{0, 11, 15, 33, 0, 11, 15, 31, 1, 8, 20, 27}));
}

TEST(NgramMemory, FoldedTokensHashAlike) {
  const NgramHashes hashes =
      NgramHashes::of({.seed = 7, .max_size = 2, .heads = 3, .buckets = 1000, .folded_ids = {0, 1, 0, 2}});
  EXPECT_EQ(hashes.none, 3);
  EXPECT_EQ(numbers_of(ngram_memory_rows(recent_of({{2, 1}}), hashes)),
            numbers_of(ngram_memory_rows(recent_of({{0, 1}}), hashes)));
  EXPECT_NE(numbers_of(ngram_memory_rows(recent_of({{3, 1}}), hashes)),
            numbers_of(ngram_memory_rows(recent_of({{0, 1}}), hashes)));
  EXPECT_THROW(ngram_memory_rows(recent_of({{4, 1}}), hashes), Error);
}

// Powers of the primes leave 64 bits; sums are signed, and remainders are not.
TEST(NgramMemory, RollingHashesAreThoseOfBltsCode) {
  const std::string text = "hello world";
  const auto hashed = [&](int64_t size, int64_t function, int64_t buckets) {
    std::vector<std::vector<int>> rows;
    for (int64_t t = 0; t < int64_t(text.size()); ++t) {
      rows.emplace_back();
      for (int64_t k = 0; k < 8; ++k) rows.back().push_back(t - k >= 0 ? text[size_t(t - k)] : -1);
    }
    return numbers_of(rolling_hash_ids(recent_of(rows), size, function, buckets));
  };
  EXPECT_EQ(hashed(3, 0, 30000),
            (std::vector<int>{25400, 7597, 16407, 26453, 26607, 19221, 16470, 16608, 26786, 26505, 17690}));
  EXPECT_EQ(hashed(8, 0, 30000),
            (std::vector<int>{18248, 2827, 26673, 15995, 16742, 1866, 24039, 7466, 9212, 9861, 4859}));
  EXPECT_EQ(hashed(8, 1, 500002),
            (std::vector<int>{373968, 407473, 119561, 83715, 294932, 287550, 90209, 475336, 432054, 50447, 489615}));
  EXPECT_EQ(hashed(5, 10, 7), (std::vector<int>{3, 4, 0, 0, 0, 4, 5, 1, 1, 2, 3}));
}

TEST(NgramMemory, TheGateIsASignedRootOfTheProduct) {
  const Tensor k = kit::normal({4, 6}, DType::f64, 1), q = kit::normal({4, 6}, DType::f64, 2),
               v = kit::normal({4, 6}, DType::f64, 3);
  for (int64_t c = 0; c < 6; ++c) set_value(q, 3 * 6 + c, 0);  // s = 0: the gate is half open
  Tensor gates;
  const Tensor y = memory_gate(k, q, v, &gates).value();
  for (int64_t n = 0; n < 4; ++n) {
    double s = 0;
    for (int64_t c = 0; c < 6; ++c) s += value_at(k, n * 6 + c) * value_at(q, n * 6 + c) / std::sqrt(6.0);
    const double root = std::copysign(std::sqrt(std::max(std::abs(s), 1e-6)), s), gate = 1 / (1 + std::exp(-root));
    EXPECT_NEAR(value_at(gates, n), gate, 1e-7);
    for (int64_t c = 0; c < 6; ++c) EXPECT_NEAR(value_at(y, n * 6 + c), gate * value_at(v, n * 6 + c), 1e-14);
  }
  kit::expect_gradients([](const Vars& in) { return memory_gate(in[0], in[1], in[2]); },
                        {k.slice(0, 3), q.slice(0, 3), v.slice(0, 3)}, "memory_gate");
}

TEST(CandidateScores, CodesAreHashedAndNoTwoAreAlike) {
  EXPECT_EQ(numbers_of(hashed_codes(9, 2, 3, 0, Device::cpu)),
            (std::vector<int>{0, 2, 1, 1, 1, 2, 2, 1, 2, 2, 2, 0, 0, 0, 1, 0, 0, 1}));
  EXPECT_THROW(hashed_codes(10, 2, 3, 0, Device::cpu), Error);
}

TEST(CandidateScores, SumTheLogitsOfTheCodes) {
  const Tensor codes = hashed_codes(9, 2, 3, 4, Device::cpu), x = kit::normal({5, 6}, DType::f64, 1);
  const Tensor y = candidate_scores(x, codes).value();
  for (int64_t n = 0; n < 5; ++n)
    for (int64_t w = 0; w < 9; ++w)
      EXPECT_NEAR(
          value_at(y, n * 9 + w),
          value_at(x, n * 6 + codes.data<int32_t>()[w * 2]) + value_at(x, n * 6 + 3 + codes.data<int32_t>()[w * 2 + 1]),
          1e-14);
  kit::expect_gradients([&](const Vars& in) { return candidate_scores(in[0], codes); }, {x}, "candidate_scores");
}

}  // namespace
}  // namespace lithe
