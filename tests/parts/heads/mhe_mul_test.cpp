#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

using kit::AttentionBench;

// W_i = W diag(1 + e_i) for every head.
Tensor spread(const Tensor& w, const Tensor& e) {
  const Tensor out = kit::columns_of(w, {0, 1, 0, 1, 0, 1});
  for (int64_t i = 0; i < out.numel(); ++i)
    set_value(out, i, value_at(out, i) * (1 + value_at(e, i % kit::kBenchWidth)));
  return out;
}

// oracle: mixer.mhe_mul
TEST(MheMul, EqualsMhaWithScaledMatrices) {
  for (bool rotary : {false, true}) {
    AttentionBench mhe("mhe_mul", kit::kBenchWidth, kit::kBenchHeads, "", rotary),
        mha("mha", kit::kBenchWidth, kit::kBenchHeads, "", rotary);
    for (const std::string role : kit::kBenchRoles)
      kit::assign(mha["heads." + role + ".weight"],
                  spread(mhe["heads." + role + ".weight"], mhe["heads." + role + ".head_embedding"]));
    kit::assign(mha["output.weight"], mhe["output.weight"]);
    EXPECT_EQ(kit::close(mhe(kit::bench_rows()), mha(kit::bench_rows()), 32), "") << rotary;
  }
}

TEST(MheMul, CountsParametersAndState) {
  EXPECT_EQ(12 * AttentionBench("mhe_mul", 768, 12).parameters(), 8'875'008);
  EXPECT_EQ(18 * AttentionBench("mhe_mul", 512, 8).parameters(), 6'515'712);
  EXPECT_EQ(24 * AttentionBench("mhe_mul", 1024, 16).parameters(), 29'958'144);
  // Seeds only; where rotary positions turn the heads, keys have two rows.
  for (bool rotary : {false, true})
    EXPECT_EQ(AttentionBench("mhe_mul", kit::kBenchWidth, kit::kBenchHeads, "", rotary)
                      .mixer->state_bytes({10}, DType::bf16) /
                  2,
              (rotary ? 3 : 2) * 10 * kit::kBenchHeadDim);
}

TEST(MheMul, EmbeddingsOfMinusOneSilenceAHead) {
  for (bool rotary : {false, true}) {
    AttentionBench mhe("mhe_mul", kit::kBenchWidth, kit::kBenchHeads, "output: none", rotary);
    for (const std::string role : kit::kBenchRoles)
      for (int64_t c : {2, 3}) set_value(mhe["heads." + role + ".head_embedding"], c, -1);
    const Tensor y = mhe(kit::bench_rows());
    EXPECT_EQ(kit::values(kit::head_columns(y, 1, kit::kBenchHeadDim)), std::vector<double>(10, 0)) << rotary;
    EXPECT_GT(kit::largest_difference(kit::head_columns(y, 0, kit::kBenchHeadDim), zeros({5, 2}, DType::f64)), 1e-3);
  }
}

TEST(MheMul, WithoutRotaryPositionsOnlyTheProductOfQueryAndKeyMatters) {
  for (bool rotary : {false, true}) {
    AttentionBench mhe("mhe_mul", kit::kBenchWidth, kit::kBenchHeads, "", rotary),
        swapped("mhe_mul", kit::kBenchWidth, kit::kBenchHeads, "", rotary),
        scaled("mhe_mul", kit::kBenchWidth, kit::kBenchHeads, "", rotary);
    kit::assign(swapped["heads.q.head_embedding"], mhe["heads.k.head_embedding"]);
    kit::assign(swapped["heads.k.head_embedding"], mhe["heads.q.head_embedding"]);
    if (rotary) {  // the counter-check: turned heads tell the two apart
      EXPECT_GT(kit::largest_difference(swapped(kit::bench_rows()), mhe(kit::bench_rows())), 1e-4);
      continue;
    }
    EXPECT_EQ(kit::close(swapped(kit::bench_rows()), mhe(kit::bench_rows()), 32), "");
    for (int64_t i = 0; i < kit::kBenchWidth; ++i) {
      set_value(scaled["heads.q.head_embedding"], i, 4 * (1 + value_at(mhe["heads.q.head_embedding"], i)) - 1);
      set_value(scaled["heads.k.head_embedding"], i, (1 + value_at(mhe["heads.k.head_embedding"], i)) / 4 - 1);
    }
    EXPECT_EQ(kit::close(scaled(kit::bench_rows()), mhe(kit::bench_rows()), 32), "");
  }
}

TEST(MheMul, ValueEmbeddingsScaleTheHeadsResult) {
  for (bool rotary : {false, true}) {
    AttentionBench mhe("mhe_mul", kit::kBenchWidth, kit::kBenchHeads, "output: none", rotary),
        plain("mhe_mul", kit::kBenchWidth, kit::kBenchHeads, "output: none", rotary);
    kit::assign(plain["heads.v.head_embedding"], std::vector<double>(kit::kBenchWidth, 0));
    Tensor want = plain(kit::bench_rows());
    for (int64_t i = 0; i < want.numel(); ++i)
      set_value(want, i, value_at(want, i) * (1 + value_at(mhe["heads.v.head_embedding"], i % kit::kBenchWidth)));
    EXPECT_EQ(kit::close(mhe(kit::bench_rows()), want, 16), "") << rotary;
  }
}

// Decoding reads turned seeds as one key of two rows; whole sequences form the keys of every head.
// oracle: mixer.mhe_mul
TEST(MheMul, DecodesAsOneKeyOfTwoTurnedRows) {
  const Tensor x = kit::normal({7, 24}, DType::f64, 1);
  for (const std::string rotation :
       {"{}", "{layout: interleaved}", "{rotary_dim: 4}", "{rotary_dim: 4, layout: interleaved}",
        "{scaling: yarn, factor: 4, original_max_position_embeddings: 8, rotary_dim: 6}"})
    for (const std::string scale : {"", "scale: sqrt_hidden"}) {
      AttentionBench mhe("mhe_mul", 24, 3, scale, true, true, rotation);
      EXPECT_EQ(mhe.mixer->state_bytes({10}, DType::bf16) / 2, 3 * 10 * 8);
      const Tensor whole = mhe(x);
      for (int64_t prefill : {1, 4, 7}) EXPECT_EQ(kit::close(mhe.decoded(x, prefill), whole, 64), "") << rotation;
    }
}

// Fields that look at keys see those of every head, formed anew, and seeds are kept.
TEST(MheMul, FormsKeysForFieldsThatReadThem) {
  AttentionBench mhe("mhe_mul", 24, 3, "field: {type: top_keys, keys: 3}", true);
  EXPECT_EQ(mhe.mixer->state_bytes({10}, DType::bf16) / 2, 2 * 10 * 8);
  const Tensor x = kit::normal({7, 24}, DType::f64, 1);
  EXPECT_EQ(kit::close(mhe.decoded(x), mhe(x), 64), "");
}

TEST(MheMul, DecodesWithoutEmbeddingsAsOneHead) {
  const Tensor x = kit::normal({7, 24}, DType::f64, 1);
  AttentionBench mhe("mhe_mul", 24, 3, "", true), sha("sha", 24, 3, "", true);
  for (const std::string role : kit::kBenchRoles) {
    kit::assign(mhe["heads." + role + ".head_embedding"], std::vector<double>(24, 0));
    kit::assign(sha["heads." + role + ".weight"], mhe["heads." + role + ".weight"]);
  }
  kit::assign(sha["output.weight"], mhe["output.weight"]);
  EXPECT_EQ(kit::close(mhe.decoded(x), sha.decoded(x), 32), "");
}

}  // namespace
}  // namespace lithe
