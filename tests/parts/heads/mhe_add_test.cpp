#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

using kit::AttentionBench;

// MHA whose heads share one matrix and have the embeddings as biases.
AttentionBench special_mha(AttentionBench& mhe, bool rotary, const std::string& cap = "") {
  AttentionBench mha("mha", kit::kBenchWidth, kit::kBenchHeads, cap + "attention_bias: true", rotary);
  for (const std::string role : kit::kBenchRoles) {
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
    AttentionBench mhe("mhe_add", kit::kBenchWidth, kit::kBenchHeads, "", rotary), mha = special_mha(mhe, rotary);
    EXPECT_EQ(kit::close(mhe(kit::bench_rows()), mha(kit::bench_rows()), 32), "") << rotary;
    const Tensor dy = kit::normal({5, kit::kBenchWidth}, DType::f64, 3);
    for (const std::string role : {"q", "v"}) {
      const Tensor want = mha.gradient("heads." + role + ".bias", kit::bench_rows(), dy);
      EXPECT_EQ(kit::close(mhe.gradient("heads." + role + ".head_embedding", kit::bench_rows(), dy), want, 64), "")
          << role << rotary;
    }
  }
}

// Softmax ignores what e^K adds to all logits of a query; a cap does not.
TEST(MheAdd, EqualsMhaWithCappedLogits) {
  for (bool rotary : {false, true}) {
    AttentionBench mhe("mhe_add", kit::kBenchWidth, kit::kBenchHeads, "attn_logit_softcapping: 0.5", rotary),
        mha = special_mha(mhe, rotary, "attn_logit_softcapping: 0.5, ");
    EXPECT_EQ(kit::close(mhe(kit::bench_rows()), mha(kit::bench_rows()), 64), "") << rotary;
  }
}

TEST(MheAdd, CountsParametersAndState) {
  // 3 d d_h + 3 n d_h + d^2; 8,875,008 in 12 layers, 2,304 a layer above one head.
  EXPECT_EQ(12 * AttentionBench("mhe_add", 768, 12).parameters(), 8'875'008);
  EXPECT_EQ(18 * AttentionBench("mhe_add", 512, 8).parameters(), 6'515'712);
  EXPECT_EQ(AttentionBench("mhe_add", 768, 12).parameters() - AttentionBench("sha", 768, 12).parameters(), 2'304);
  // Seeds only; where rotary positions turn the heads, keys have two rows.
  for (bool rotary : {false, true})
    EXPECT_EQ(AttentionBench("mhe_add", kit::kBenchWidth, kit::kBenchHeads, "", rotary)
                      .mixer->state_bytes({10}, DType::bf16) /
                  2,
              (rotary ? 3 : 2) * 10 * kit::kBenchHeadDim);
}

TEST(MheAdd, WithoutRotaryPositionsKeyEmbeddingsDoNothing) {
  AttentionBench plain("mhe_add"), turned("mhe_add", kit::kBenchWidth, kit::kBenchHeads, "", true);
  const Tensor dy = kit::normal({5, kit::kBenchWidth}, DType::f64, 3);
  for (AttentionBench* mhe : {&plain, &turned}) {
    const Tensor before = (*mhe)(kit::bench_rows()),
                 gradient = mhe->gradient("heads.k.head_embedding", kit::bench_rows(), dy);
    kit::assign((*mhe)["heads.k.head_embedding"], kit::normal({kit::kBenchWidth}, DType::f64, 9));
    const double moved = kit::largest_difference(before, (*mhe)(kit::bench_rows()));
    if (mhe == &plain) {
      EXPECT_LE(moved, 64 * 0x1p-53);
      EXPECT_FALSE(gradient.defined() &&
                   kit::largest_difference(gradient, zeros({kit::kBenchWidth}, DType::f64)) > 64 * 0x1p-53);
    } else {
      EXPECT_GT(moved, 1e-3);
    }
  }
}

TEST(MheAdd, ValueEmbeddingsAddAConstantRow) {
  AttentionBench mhe("mhe_add"), none("mhe_add");
  kit::assign(none["heads.v.head_embedding"], std::vector<double>(kit::kBenchWidth, 0));
  const Tensor c = kit::product(mhe["heads.v.head_embedding"].reshape({1, kit::kBenchWidth}), mhe["output.weight"]);
  EXPECT_EQ(
      kit::close(mhe(kit::bench_rows()), kit::sum(none(kit::bench_rows()), kit::concatenate({c, c, c, c, c})), 32), "");
}

TEST(MheAdd, OrderOfHeadsDoesNotMatter) {
  AttentionBench mhe("mhe_add", kit::kBenchWidth, kit::kBenchHeads, "", true),
      other("mhe_add", kit::kBenchWidth, kit::kBenchHeads, "", true);
  const std::vector<int64_t> order{4, 5, 0, 1, 2, 3};
  for (const std::string role : kit::kBenchRoles)
    kit::assign(other["heads." + role + ".head_embedding"],
                kit::columns_of(mhe["heads." + role + ".head_embedding"].reshape({1, kit::kBenchWidth}), order));
  kit::assign(other["output.weight"], kit::rows_of(mhe["output.weight"], order));
  EXPECT_EQ(kit::close(other(kit::bench_rows()), mhe(kit::bench_rows()), 32), "");
}

TEST(MheAdd, CanTurnSeedsBeforeTheEmbeddingsJoin) {
  AttentionBench after("mhe_add", kit::kBenchWidth, kit::kBenchHeads, "", true),
      before("{type: mhe_add, rope_order: before}", kit::kBenchWidth, kit::kBenchHeads, "", true);
  EXPECT_GT(kit::largest_difference(after(kit::bench_rows()), before(kit::bench_rows())), 1e-3);
  for (AttentionBench* mhe : {&after, &before})
    for (const std::string role : kit::kBenchRoles)
      kit::assign((*mhe)["heads." + role + ".head_embedding"], std::vector<double>(kit::kBenchWidth, 0));
  EXPECT_EQ(kit::close(after(kit::bench_rows()), before(kit::bench_rows()), 32), "");
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

// Decoding reads turned seeds as one key of two rows; whole sequences form the keys of every head.
// oracle: mixer.mhe_add
TEST(MheAdd, DecodesAsOneKeyOfTwoTurnedRows) {
  const Tensor x = kit::normal({7, 24}, DType::f64, 1);
  for (const std::string rotation :
       {"{}", "{layout: interleaved}", "{rotary_dim: 4}", "{rotary_dim: 4, layout: interleaved}",
        "{scaling: yarn, factor: 4, original_max_position_embeddings: 8, rotary_dim: 6}"})
    for (const std::string scale : {"", "scale: sqrt_hidden"}) {
      AttentionBench mhe("mhe_add", 24, 3, scale, true, true, rotation);
      EXPECT_EQ(mhe.mixer->state_bytes({10}, DType::bf16) / 2, 3 * 10 * 8);
      const Tensor whole = mhe(x);
      for (int64_t prefill : {1, 4, 7}) EXPECT_EQ(kit::close(mhe.decoded(x, prefill), whole, 64), "") << rotation;
    }
}

// Fields that look at keys see those of every head, formed anew, and seeds are kept.
TEST(MheAdd, FormsKeysForFieldsThatReadThem) {
  AttentionBench mhe("mhe_add", 24, 3, "field: {type: top_keys, keys: 3}", true);
  EXPECT_EQ(mhe.mixer->state_bytes({10}, DType::bf16) / 2, 2 * 10 * 8);
  const Tensor x = kit::normal({7, 24}, DType::f64, 1);
  EXPECT_EQ(kit::close(mhe.decoded(x), mhe(x), 64), "");
}

}  // namespace
}  // namespace lithe
