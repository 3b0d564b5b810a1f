#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

using kit::AttentionBench;

constexpr int64_t D = 6, kHeads = 3, kHeadDim = 2;
constexpr const char* kRoles[] = {"q", "k", "v"};

const Tensor& input() {
  static const Tensor x = kit::normal({5, D}, DType::f64, 1);
  return x;
}

// MHA whose heads share one matrix and have the embeddings as biases.
AttentionBench special_mha(AttentionBench& mhe, bool rotary) {
  AttentionBench mha("mha", D, kHeads, "attention_bias: true", rotary);
  for (const std::string role : kRoles) {
    kit::assign(mha["heads." + role + ".weight"],
                kit::columns_of(mhe["heads." + role + ".weight"], {0, 1, 0, 1, 0, 1}));
    kit::assign(mha["heads." + role + ".bias"], mhe["heads." + role + ".head_embedding"]);
  }
  kit::assign(mha["output.weight"], mhe["output.weight"]);
  return mha;
}

// oracle: mixer.mhe_add
TEST(MheAdd, EqualsMhaWithSharedMatricesAndABiasAHead) {
  for (bool rotary : {false, true}) {
    AttentionBench mhe("mhe_add", D, kHeads, "", rotary), mha = special_mha(mhe, rotary);
    EXPECT_EQ(kit::close(mhe(input()), mha(input()), 32), "") << rotary;
    const Tensor dy = kit::normal({5, D}, DType::f64, 3);
    for (const std::string role : {"q", "v"}) {
      const Tensor want = mha.gradient("heads." + role + ".bias", input(), dy);
      EXPECT_EQ(kit::close(mhe.gradient("heads." + role + ".head_embedding", input(), dy), want, 64), "")
          << role << rotary;
    }
  }
}

TEST(MheAdd, CountsParametersAndState) {
  // 3 d d_h + 3 n d_h + d^2; 8,875,008 in 12 layers, 2,304 a layer above one head.
  EXPECT_EQ(12 * AttentionBench("mhe_add", 768, 12).parameters(), 8'875'008);
  EXPECT_EQ(18 * AttentionBench("mhe_add", 512, 8).parameters(), 6'515'712);
  EXPECT_EQ(AttentionBench("mhe_add", 768, 12).parameters() - AttentionBench("sha", 768, 12).parameters(), 2'304);
  for (bool rotary : {false, true})
    EXPECT_EQ(AttentionBench("mhe_add", D, kHeads, "", rotary).mixer->state_bytes({10}, DType::u8),
              2 * 10 * kHeadDim);  // seeds only
}

TEST(MheAdd, WithoutRotaryPositionsKeyEmbeddingsDoNothing) {
  AttentionBench plain("mhe_add"), turned("mhe_add", D, kHeads, "", true);
  const Tensor dy = kit::normal({5, D}, DType::f64, 3);
  for (AttentionBench* mhe : {&plain, &turned}) {
    const Tensor before = (*mhe)(input()), gradient = mhe->gradient("heads.k.head_embedding", input(), dy);
    kit::assign((*mhe)["heads.k.head_embedding"], kit::normal({D}, DType::f64, 9));
    const double moved = kit::largest_difference(before, (*mhe)(input()));
    if (mhe == &plain) {
      EXPECT_LE(moved, 64 * 0x1p-53);
      EXPECT_FALSE(gradient.defined() && kit::largest_difference(gradient, zeros({D}, DType::f64)) > 64 * 0x1p-53);
    } else {
      EXPECT_GT(moved, 1e-3);
    }
  }
}

TEST(MheAdd, ValueEmbeddingsAddAConstantRow) {
  AttentionBench mhe("mhe_add"), none("mhe_add");
  kit::assign(none["heads.v.head_embedding"], std::vector<double>(D, 0));
  const Tensor c = kit::product(mhe["heads.v.head_embedding"].reshape({1, D}), mhe["output.weight"]);
  EXPECT_EQ(kit::close(mhe(input()), kit::sum(none(input()), kit::concatenate({c, c, c, c, c})), 32), "");
}

TEST(MheAdd, OrderOfHeadsDoesNotMatter) {
  AttentionBench mhe("mhe_add", D, kHeads, "", true), other("mhe_add", D, kHeads, "", true);
  const std::vector<int64_t> order{4, 5, 0, 1, 2, 3};
  for (const std::string role : kRoles)
    kit::assign(other["heads." + role + ".head_embedding"],
                kit::columns_of(mhe["heads." + role + ".head_embedding"].reshape({1, D}), order));
  kit::assign(other["output.weight"], kit::rows_of(mhe["output.weight"], order));
  EXPECT_EQ(kit::close(other(input()), mhe(input()), 32), "");
}

TEST(MheAdd, CanTurnSeedsBeforeTheEmbeddingsJoin) {
  AttentionBench after("mhe_add", D, kHeads, "", true),
      before("{type: mhe_add, rope_order: before}", D, kHeads, "", true);
  EXPECT_GT(kit::largest_difference(after(input()), before(input())), 1e-3);
  for (AttentionBench* mhe : {&after, &before})
    for (const std::string role : kRoles)
      kit::assign((*mhe)["heads." + role + ".head_embedding"], std::vector<double>(D, 0));
  EXPECT_EQ(kit::close(after(input()), before(input()), 32), "");
}

// Head embeddings are tables of an embedding for each head: they decay as tables do; biases and norms do not.
TEST(MheAdd, HeadEmbeddingsDecay) {
  const Model model(
      kit::model_config("{hidden_size: 8, num_hidden_layers: 1, vocab_size: 9, max_position_embeddings: 4, "
                        "position: none, ffn: {type: relu, intermediate_size: 8}, mixer: {type: attention, "
                        "num_attention_heads: 2, attention_bias: true, heads: mhe_add}}"),
      {});
  int embeddings = 0;
  for (const Parameter& p : model.parameters().all()) {
    const bool embedding = p.name.ends_with("head_embedding");
    embeddings += embedding;
    EXPECT_EQ(p.decay, embedding || p.master.shape().rank() == 2) << p.name;
  }
  EXPECT_EQ(embeddings, 3);
}

}  // namespace
}  // namespace lithe
