#include <gtest/gtest.h>

#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

using kit::AttentionBench;

std::vector<int64_t> channels_of(int64_t head) { return {kit::kBenchHeadDim * head, kit::kBenchHeadDim * head + 1}; }

// oracle: mixer.mha
TEST(Mha, CountsItsParameters) {
  for (const auto& [d, h] : {std::pair<int64_t, int64_t>{6, 3}, {16, 1}, {15, 5}})
    EXPECT_EQ(AttentionBench("mha", d, h).parameters(), 4 * d * d);
  // 3 d h d_h + h d_h d with heads narrower or wider than d / h, and biases.
  EXPECT_EQ(AttentionBench("mha", 6, 3, "head_dim: 5").parameters(), 4 * 6 * 15);
  EXPECT_EQ(AttentionBench("mha", 6, 3, "attention_bias: true, output_bias: true").parameters(), 4 * 36 + 4 * 6);
}

TEST(Mha, OneTokenGivesItsValueThroughBothMaps) {
  AttentionBench mha("mha");
  const Tensor x = kit::bench_rows().slice(0, 1);
  EXPECT_EQ(kit::close(mha(x), kit::product(kit::product(x, mha["heads.v.weight"]), mha["output.weight"]), 16), "");
}

TEST(Mha, OrderOfHeadsDoesNotMatter) {
  AttentionBench mha("mha"), other("mha");
  std::vector<int64_t> order;
  for (int64_t head : {2, 0, 1})
    for (int64_t c : channels_of(head)) order.push_back(c);
  for (const char* name : {"heads.q.weight", "heads.k.weight", "heads.v.weight"})
    kit::assign(other[name], kit::columns_of(mha[name], order));
  kit::assign(other["output.weight"], kit::rows_of(mha["output.weight"], order));
  EXPECT_EQ(kit::close(other(kit::bench_rows()), mha(kit::bench_rows()), 16), "");
}

TEST(Mha, QueriesAndKeysCanBeScaledAgainstEachOther) {
  AttentionBench mha("mha"), other("mha");
  for (int64_t i = 0; i < kit::kBenchWidth * kit::kBenchWidth; ++i) {
    set_value(other["heads.q.weight"], i, 4 * value_at(mha["heads.q.weight"], i));
    set_value(other["heads.k.weight"], i, value_at(mha["heads.k.weight"], i) / 4);
  }
  EXPECT_EQ(kit::bit_difference(other(kit::bench_rows()), mha(kit::bench_rows())), "");  // powers of two round nothing
}

TEST(Mha, IsTheSumOfItsHeadsAndAZeroBlockPrunesOne) {
  AttentionBench mha("mha"), single("mha", kit::kBenchWidth, 1, cat("head_dim: ", kit::kBenchHeadDim));
  Tensor total = zeros({5, kit::kBenchWidth}, DType::f64), without1;
  for (int64_t head = 0; head < 3; ++head) {
    for (const char* name : {"heads.q.weight", "heads.k.weight", "heads.v.weight"})
      kit::assign(single[name], kit::columns_of(mha[name], channels_of(head)));
    kit::assign(single["output.weight"], kit::rows_of(mha["output.weight"], channels_of(head)));
    const Tensor y = single(kit::bench_rows());
    total = kit::sum(total, y);
    if (head != 1) without1 = without1.defined() ? kit::sum(without1, y) : y;
  }
  EXPECT_EQ(kit::close(mha(kit::bench_rows()), total, 16), "");
  for (int64_t c : channels_of(1))
    for (int64_t i = 0; i < kit::kBenchWidth; ++i) set_value(mha["output.weight"], c * kit::kBenchWidth + i, 0);
  EXPECT_EQ(kit::close(mha(kit::bench_rows()), without1, 16), "");
}

// KS: the same vector added to every key changes nothing. VS: added to every value it comes out through W_c.
TEST(Mha, ShiftedKeysChangeNothingAndShiftedValuesShiftTheResult) {
  const std::string biased = "attention_bias: true";
  AttentionBench mha("mha", kit::kBenchWidth, kit::kBenchHeads, biased),
      keys("mha", kit::kBenchWidth, kit::kBenchHeads, biased),
      shifted("mha", kit::kBenchWidth, kit::kBenchHeads, biased);
  const Tensor c = kit::normal({1, kit::kBenchWidth}, DType::f64, 6);
  kit::assign(keys["heads.k.bias"], kit::sum(mha["heads.k.bias"].reshape({1, kit::kBenchWidth}), c));
  EXPECT_EQ(kit::close(keys(kit::bench_rows()), mha(kit::bench_rows()), 64), "");
  kit::assign(shifted["heads.v.bias"], kit::sum(mha["heads.v.bias"].reshape({1, kit::kBenchWidth}), c));
  const Tensor moved = kit::product(c, mha["output.weight"]);
  EXPECT_EQ(kit::close(shifted(kit::bench_rows()),
                       kit::sum(mha(kit::bench_rows()), kit::concatenate({moved, moved, moved, moved, moved})), 32),
            "");
}

TEST(Mha, WithoutCausalityRowsInAnotherOrderGiveTheSameRowsInThatOrder) {
  const AttentionBench mha("mha", kit::kBenchWidth, kit::kBenchHeads, "", false, false), causal("mha");
  const std::vector<int64_t> order{3, 0, 4, 2, 1};
  EXPECT_EQ(kit::close(mha(kit::rows_of(kit::bench_rows(), order)), kit::rows_of(mha(kit::bench_rows()), order), 16),
            "");
  EXPECT_GT(kit::largest_difference(causal(kit::rows_of(kit::bench_rows(), order)),
                                    kit::rows_of(causal(kit::bench_rows()), order)),
            1e-2);
}

// Weights are positive and sum to one: constant values come back.
TEST(Mha, WeightsOfARowSumToOne) {
  AttentionBench mha("mha", kit::kBenchWidth, kit::kBenchHeads, "attention_bias: true, output: none");
  kit::assign(mha["heads.v.weight"], std::vector<double>(kit::kBenchWidth * kit::kBenchWidth, 0));
  const Tensor bias = mha["heads.v.bias"].reshape({1, kit::kBenchWidth});
  EXPECT_EQ(kit::close(mha(kit::bench_rows()), kit::concatenate({bias, bias, bias, bias, bias}), 8), "");
}

TEST(Mha, RemembersKeysAndValues) {
  EXPECT_EQ(AttentionBench("mha").mixer->state_bytes({10}, DType::bf16) / 2, 2 * 10 * 6);
  EXPECT_EQ(AttentionBench("mha", 6, 3, "head_dim: 5").mixer->state_bytes({7}, DType::bf16) / 2, 2 * 7 * 15);
}

}  // namespace
}  // namespace lithe
