#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// Attention of D channels in f64 with its matrices.
struct Attention {
  explicit Attention(int64_t d, const std::string& options = "{num_attention_heads: 3}", bool causal = true)
      : mixer(bench.make<Mixer>("attention", {.hidden_size = d, .max_position_embeddings = 9, .causal = causal},
                                options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  Tensor operator[](const std::string& name) { return bench["part." + name + ".weight"]; }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

constexpr int64_t D = 6, kHeadDim = 2;
const Tensor& input() {
  static const Tensor x = kit::normal({5, D}, DType::f64, 1);
  return x;
}
std::vector<int64_t> channels_of(int64_t head) { return {kHeadDim * head, kHeadDim * head + 1}; }

// oracle: mixer.mha
TEST(Mha, CountsItsParameters) {
  for (const auto& [d, h] : {std::pair<int64_t, int64_t>{6, 3}, {16, 1}, {15, 5}})
    EXPECT_EQ(Attention(d, cat("{num_attention_heads: ", h, "}")).bench.parameters().count(), 4 * d * d);
  // 3 d h d_h + h d_h d with heads narrower or wider than d / h, and biases.
  EXPECT_EQ(Attention(6, "{num_attention_heads: 3, head_dim: 5}").bench.parameters().count(), 4 * 6 * 15);
  EXPECT_EQ(
      Attention(6, "{num_attention_heads: 3, attention_bias: true, output_bias: true}").bench.parameters().count(),
      4 * 36 + 4 * 6);
}

TEST(Mha, OneTokenGivesItsValueThroughBothMaps) {
  Attention mha(D);
  const Tensor x = input().slice(0, 1);
  EXPECT_EQ(kit::close(mha(x), kit::product(kit::product(x, mha["heads.v"]), mha["output"]), 16), "");
}

TEST(Mha, OrderOfHeadsDoesNotMatter) {
  Attention mha(D), other(D);
  std::vector<int64_t> order;
  for (int64_t head : {2, 0, 1})
    for (int64_t c : channels_of(head)) order.push_back(c);
  for (const char* name : {"heads.q", "heads.k", "heads.v"})
    kit::assign(other[name], kit::columns_of(mha[name], order));
  kit::assign(other["output"], kit::rows_of(mha["output"], order));
  EXPECT_EQ(kit::close(other(input()), mha(input()), 16), "");
}

TEST(Mha, QueriesAndKeysCanBeScaledAgainstEachOther) {
  Attention mha(D), other(D);
  for (int64_t i = 0; i < D * D; ++i) {
    set_value(other["heads.q"], i, 4 * value_at(mha["heads.q"], i));
    set_value(other["heads.k"], i, value_at(mha["heads.k"], i) / 4);
  }
  EXPECT_EQ(kit::bit_difference(other(input()), mha(input())), "");  // powers of two round nothing
}

TEST(Mha, IsTheSumOfItsHeadsAndAZeroBlockPrunesOne) {
  Attention mha(D), single(D, cat("{num_attention_heads: 1, head_dim: ", kHeadDim, "}"));
  Tensor total = zeros({5, D}, DType::f64), without1;
  for (int64_t head = 0; head < 3; ++head) {
    for (const char* name : {"heads.q", "heads.k", "heads.v"})
      kit::assign(single[name], kit::columns_of(mha[name], channels_of(head)));
    kit::assign(single["output"], kit::rows_of(mha["output"], channels_of(head)));
    const Tensor y = single(input());
    total = kit::sum(total, y);
    if (head != 1) without1 = without1.defined() ? kit::sum(without1, y) : y;
  }
  EXPECT_EQ(kit::close(mha(input()), total, 16), "");
  for (int64_t c : channels_of(1))
    for (int64_t i = 0; i < D; ++i) set_value(mha["output"], c * D + i, 0);
  EXPECT_EQ(kit::close(mha(input()), without1, 16), "");
}

// KS: the same vector added to every key changes nothing. VS: added to every value it comes out through W_c.
TEST(Mha, ShiftedKeysChangeNothingAndShiftedValuesShiftTheResult) {
  const std::string biased = "{num_attention_heads: 3, attention_bias: true}";
  Attention mha(D, biased), keys(D, biased), shifted(D, biased);
  const Tensor c = kit::normal({1, D}, DType::f64, 6);
  kit::assign(keys.bench["part.heads.k.bias"], kit::sum(mha.bench["part.heads.k.bias"].reshape({1, D}), c));
  EXPECT_EQ(kit::close(keys(input()), mha(input()), 64), "");
  kit::assign(shifted.bench["part.heads.v.bias"], kit::sum(mha.bench["part.heads.v.bias"].reshape({1, D}), c));
  const Tensor moved = kit::product(c, mha["output"]);
  EXPECT_EQ(
      kit::close(shifted(input()), kit::sum(mha(input()), kit::concatenate({moved, moved, moved, moved, moved})), 32),
      "");
}

TEST(Mha, WithoutCausalityRowsInAnotherOrderGiveTheSameRowsInThatOrder) {
  const Attention mha(D, "{num_attention_heads: 3}", false), causal(D);
  const std::vector<int64_t> order{3, 0, 4, 2, 1};
  EXPECT_EQ(kit::close(mha(kit::rows_of(input(), order)), kit::rows_of(mha(input()), order), 16), "");
  EXPECT_GT(kit::largest_difference(causal(kit::rows_of(input(), order)), kit::rows_of(causal(input()), order)), 1e-2);
}

// Weights are positive and sum to one: constant values come back.
TEST(Mha, WeightsOfARowSumToOne) {
  Attention mha(D, "{num_attention_heads: 3, attention_bias: true, output: none}");
  kit::assign(mha["heads.v"], std::vector<double>(D * D, 0));
  const Tensor bias = mha.bench["part.heads.v.bias"].reshape({1, D});
  EXPECT_EQ(kit::close(mha(input()), kit::concatenate({bias, bias, bias, bias, bias}), 8), "");
}

TEST(Mha, RemembersKeysAndValues) {
  EXPECT_EQ(Attention(6).mixer->state_bytes({10}, DType::u8), 2 * 10 * 6);
  EXPECT_EQ(Attention(6, "{num_attention_heads: 3, head_dim: 5}").mixer->state_bytes({7}, DType::u8), 2 * 7 * 15);
}

}  // namespace
}  // namespace lithe
