#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

kernels::AttentionMask mask(bool causal) {
  kit::Bench bench;
  return bench.make<Field>("full", {.causal = causal})->pattern({{}, {}, Sequences(), Pass::nowhere()}).mask;
}

// Attention weights of given logits: keys and values are unit vectors, queries the logits' rows.
Tensor weights(const Tensor& logits, bool causal) {
  const int64_t T = logits.rows(), S = logits.cols();
  return attend(Var(logits), Var(kit::identity(S)), Var(kit::identity(S)), Sequences::single(T), Sequences::single(S),
                {.scale = 1, .mask = mask(causal)})
      .value();
}

// oracle: mask.causal
TEST(FullField, CausalWeightsAreTheTextbooksExample) {
  const Tensor logits = kit::tensor_f64({4, 4}, {2, .1, 1, 1, 0, .9, .9, .9, .2, .8, .7, 2, .3, 1, .3, 3});
  const Tensor got = weights(logits, true);
  EXPECT_EQ(kit::close_to_printed(got,
                                  {1, 0, 0, 0, 0.289050, 0.710950, 0, 0, 0.223672, 0.407556, 0.368772, 0, 0.052928,
                                   0.106585, 0.052928, 0.787559},
                                  6),
            "");
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t k = i + 1; k < 4; ++k) EXPECT_EQ(value_at(got, i * 4 + k), 0) << i << " " << k;
}

TEST(FullField, FewerQueriesThanKeysAreTheLastOnes) {
  // Query i of T sees keys up to i + (S - T): the last two rows of the example, asked alone.
  const Tensor logits = kit::tensor_f64({2, 4}, {.2, .8, .7, 2, .3, 1, .3, 3});
  EXPECT_EQ(kit::close_to_printed(weights(logits, true),
                                  {0.223672, 0.407556, 0.368772, 0, 0.052928, 0.106585, 0.052928, 0.787559}, 6),
            "");
}

TEST(FullField, WithoutCausalityEveryPairMeets) {
  const Tensor got = weights(kit::normal({3, 3}, DType::f64, 1), false);
  for (int64_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < 3; ++k) {
      EXPECT_GT(value_at(got, i * 3 + k), 0);
      sum += value_at(got, i * 3 + k);
    }
    EXPECT_NEAR(sum, 1, 4 * 0x1p-53);
  }
}

}  // namespace
}  // namespace lithe
