#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

constexpr int64_t kGqaWidth = 12, kGqaHeads = 6;

using kit::AttentionBench;

// The columns of a [d, kv d_h] matrix, each group's repeated for its query heads.
Tensor repeated(const Tensor& w, int64_t kv) {
  std::vector<int64_t> columns;
  for (int64_t head = 0; head < kGqaHeads; ++head)
    for (int64_t c = 0; c < kit::kBenchHeadDim; ++c)
      columns.push_back(head / (kGqaHeads / kv) * kit::kBenchHeadDim + c);
  return kit::columns_of(w, columns);
}

// oracle: mixer.gqa
TEST(Gqa, EqualsMhaWithRepeatedWeights) {
  const Tensor x = kit::normal({5, kGqaWidth}, DType::f64, 1);
  for (int64_t kv : {1, 2, 3, 6}) {
    AttentionBench gqa(cat("{type: gqa, num_key_value_heads: ", kv, "}"), kGqaWidth, kGqaHeads),
        mha("mha", kGqaWidth, kGqaHeads);
    for (const char* name : {"heads.q.weight", "output.weight"}) kit::assign(mha[name], gqa[name]);
    for (const char* name : {"heads.k.weight", "heads.v.weight"}) kit::assign(mha[name], repeated(gqa[name], kv));
    EXPECT_EQ(kit::close(gqa(x), mha(x), 16), "") << kv;
  }
}

TEST(Gqa, WithOneHeadIsMqa) {
  const Tensor x = kit::normal({5, kGqaWidth}, DType::f64, 1);
  AttentionBench gqa("{type: gqa, num_key_value_heads: 1}", kGqaWidth, kGqaHeads), mqa("mqa", kGqaWidth, kGqaHeads);
  kit::copy_values(mqa.bench.parameters(), gqa.bench.parameters());
  EXPECT_EQ(kit::bit_difference(gqa(x), mqa(x)), "");
}

TEST(Gqa, CountsParametersAndState) {
  // d h d_h + 2 d h_kv d_h + h d_h d
  for (const auto& [d, h, kv] : {std::array<int64_t, 3>{12, 6, 2}, {16, 4, 4}, {15, 3, 1}}) {
    const int64_t dh = d / h;
    AttentionBench gqa(cat("{type: gqa, num_key_value_heads: ", kv, "}"), d, h);
    EXPECT_EQ(gqa.parameters(), d * h * dh + 2 * d * kv * dh + h * dh * d);
    EXPECT_EQ(gqa.mixer->state_bytes({10}, DType::bf16) / 2, 2 * 10 * kv * dh);
  }
}

TEST(Gqa, ByDefaultTwoQueryHeadsShareOne) {
  EXPECT_EQ(AttentionBench("gqa", kGqaWidth, kGqaHeads).mixer->state_bytes({1}, DType::bf16) / 2,
            2 * 3 * kit::kBenchHeadDim);
  EXPECT_EQ(AttentionBench("gqa", 15, 3).mixer->state_bytes({1}, DType::bf16) / 2,
            2 * 1 * 5);  // an odd number of heads shares one
}

TEST(Gqa, GroupsMustDivideTheHeads) {
  try {
    AttentionBench("{type: gqa, num_key_value_heads: 4}", kGqaWidth, kGqaHeads);
    FAIL() << "took 4 groups of 6 heads";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "gqa: num_key_value_heads must divide num_attention_heads 6, got 4");
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace lithe
