#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

using kit::AttentionBench;

// oracle: mixer.el_att
TEST(ElAtt, EqualsMhaWhoseKeysAndValuesSelectColumns) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 1);
  for (bool rotary : {false, true}) {
    AttentionBench el("el_att", 6, 3, "", rotary), mha("mha", 6, 3, "", rotary);
    for (const char* name : {"heads.q.weight", "output.weight"}) kit::assign(mha[name], el[name]);
    for (const char* name : {"heads.k.weight", "heads.v.weight"}) kit::assign(mha[name], kit::identity(6));
    EXPECT_EQ(kit::close(el(x), mha(x), 16), "") << rotary;
  }
}

TEST(ElAtt, WithoutQueriesEveryRowIsTheMeanOfItsPast) {
  AttentionBench el("el_att", 6, 3, "output: none");
  kit::assign(el["heads.q.weight"], std::vector<double>(36, 0));
  const Tensor x = kit::normal({4, 6}, DType::f64, 1), want = zeros({4, 6}, DType::f64);
  for (int64_t t = 0; t < 4; ++t)
    for (int64_t c = 0; c < 6; ++c) {
      double sum = 0;
      for (int64_t s = 0; s <= t; ++s) sum += value_at(x, s * 6 + c);
      set_value(want, t * 6 + c, sum / double(t + 1));
    }
  EXPECT_EQ(kit::close(el(x), want, 8), "");
}

TEST(ElAtt, CountsParametersAndState) {
  // 2 d^2; the cache keeps the rows themselves.
  EXPECT_EQ(AttentionBench("el_att", 768, 12).parameters(), 1'179'648);
  EXPECT_EQ(12 * AttentionBench("el_att", 768, 12).parameters(), 14'155'776);
  EXPECT_EQ(18 * AttentionBench("el_att", 512, 8).parameters(), 9'437'184);
  EXPECT_EQ(AttentionBench("el_att").mixer->state_bytes({10}, DType::bf16) / 2, 10 * 6);
}

TEST(ElAtt, NeedsHeadsThatSliceTheRows) {
  try {
    AttentionBench("el_att", 6, 3, "head_dim: 4");
    FAIL() << "took 12 channels of 6";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "el_att: slices the hidden rows into heads, so num_attention_heads * head_dim must be hidden_size 6, "
                 "got 3 * 4");
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace lithe
