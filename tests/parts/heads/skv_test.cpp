#include <cmath>

#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

using kit::AttentionBench;

// oracle: mixer.skv
TEST(Skv, EqualsMhaWithOneMatrixForKeysAndValues) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 1);
  for (bool rotary : {false, true}) {
    AttentionBench skv("skv", 6, 3, "", rotary), mha("mha", 6, 3, "", rotary);
    for (const char* name : {"heads.q.weight", "output.weight"}) kit::assign(mha[name], skv[name]);
    for (const char* name : {"heads.k.weight", "heads.v.weight"}) kit::assign(mha[name], skv["heads.kv.weight"]);
    EXPECT_EQ(kit::close(skv(x), mha(x), 16), "") << rotary;
    const Tensor dy = kit::normal({5, 6}, DType::f64, 3);
    const Tensor both = kit::sum(mha.gradient("heads.k.weight", x, dy), mha.gradient("heads.v.weight", x, dy));
    EXPECT_EQ(kit::close(skv.gradient("heads.kv.weight", x, dy), both, 32), "") << rotary;
  }
}

TEST(Skv, CountsParametersAndState) {
  // 3 d^2; the cache keeps one row a token.
  EXPECT_EQ(AttentionBench("skv", 768, 12).parameters(), 1'769'472);
  EXPECT_EQ(12 * AttentionBench("skv", 768, 12).parameters(), 21'233'664);
  EXPECT_EQ(18 * AttentionBench("skv", 512, 8).parameters(), 14'155'776);
  EXPECT_EQ(AttentionBench("skv").mixer->state_bytes({10}, DType::bf16) / 2, 10 * 6);
  EXPECT_EQ(AttentionBench("skv", 6, 3, "", true).mixer->state_bytes({10}, DType::bf16) / 2, 10 * 6);
}

TEST(Skv, AShiftOfKeysAndValuesShiftsTheResult) {
  AttentionBench plain("skv", 6, 3, "attention_bias: true, output: none"),
      shifted("skv", 6, 3, "attention_bias: true, output: none");
  kit::copy_values(shifted.bench.parameters(), plain.bench.parameters());
  const Tensor c = kit::normal({1, 6}, DType::f64, 4);
  kit::assign(shifted["heads.kv.bias"], kit::sum(plain["heads.kv.bias"].reshape({1, 6}), c));
  const Tensor x = kit::normal({5, 6}, DType::f64, 1);
  EXPECT_EQ(kit::close(shifted(x), kit::sum(plain(x), kit::concatenate({c, c, c, c, c})), 32), "");
}

// With tie qk: MHA whose keys are its queries divided by their length.
TEST(Skv, TiedQueriesAndKeysHaveKeysOfLengthOne) {
  for (bool rotary : {false, true}) {
    AttentionBench tied("{type: skv, tie: qk}", 6, 3, "", rotary);
    EXPECT_EQ(tied.parameters(), 3 * 36);
    EXPECT_EQ(tied.mixer->state_bytes({10}, DType::bf16) / 2, 2 * 10 * 6);
    const Tensor x = kit::normal({5, 6}, DType::f64, 1);
    const auto maps = tied.mixer->maps({Var(x), Sequences::single(5), nullptr});
    const Tensor q = kit::product(x, tied["heads.qk.weight"]);
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t i = 0; i < 5; ++i) {
        double length = 0;
        for (int64_t c = 0; c < 2; ++c) length += std::pow(value_at(q, i * 6 + h * 2 + c), 2);
        // q_i . q_i / |q_i| / sqrt(d_h), whatever the turn.
        EXPECT_NEAR(value_at(maps.logits, (h * 5 + i) * 5 + i), std::sqrt(length) / std::sqrt(2.0), 1e-5);
      }
  }
}

}  // namespace
}  // namespace lithe
