#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t D = 12, kHeads = 6, kHeadDim = 2;

struct Attention {
  explicit Attention(const std::string& heads, int64_t d = D, int64_t h = kHeads)
      : mixer(bench.make<Mixer>("attention", {.hidden_size = d, .max_position_embeddings = 9}, cat("{num_attention_heads: ", h, ", heads: ", heads, "}"))) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const { return mixer->forward(Var(x), Sequences::single(x.rows()), nullptr).value(); }
  Tensor operator[](const std::string& name) { return bench["part." + name + ".weight"]; }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// The columns of a [d, kv d_h] matrix, each group's repeated for its query heads.
Tensor repeated(const Tensor& w, int64_t kv) {
  std::vector<int64_t> columns;
  for (int64_t head = 0; head < kHeads; ++head)
    for (int64_t c = 0; c < kHeadDim; ++c) columns.push_back(head / (kHeads / kv) * kHeadDim + c);
  return kit::columns_of(w, columns);
}

// oracle: mixer.gqa
TEST(Gqa, EqualsMhaWithRepeatedWeights) {
  const Tensor x = kit::normal({5, D}, DType::f64, 1);
  for (int64_t kv : {1, 2, 3, 6}) {
    Attention gqa(cat("{type: gqa, num_key_value_heads: ", kv, "}")), mha("mha");
    for (const char* name : {"heads.q", "output"}) kit::assign(mha[name], gqa[name]);
    for (const char* name : {"heads.k", "heads.v"}) kit::assign(mha[name], repeated(gqa[name], kv));
    EXPECT_EQ(kit::close(gqa(x), mha(x), 16), "") << kv;
  }
}

TEST(Gqa, WithOneHeadIsMqa) {
  const Tensor x = kit::normal({5, D}, DType::f64, 1);
  Attention gqa("{type: gqa, num_key_value_heads: 1}"), mqa("mqa");
  kit::copy_values(mqa.bench.parameters(), gqa.bench.parameters());
  EXPECT_EQ(kit::bit_difference(gqa(x), mqa(x)), "");
}

TEST(Gqa, CountsParametersAndState) {
  // d h d_h + 2 d h_kv d_h + h d_h d
  for (const auto& [d, h, kv] : {std::array<int64_t, 3>{12, 6, 2}, {16, 4, 4}, {15, 3, 1}}) {
    const int64_t dh = d / h;
    Attention gqa(cat("{type: gqa, num_key_value_heads: ", kv, "}"), d, h);
    EXPECT_EQ(gqa.bench.parameters().count(), d * h * dh + 2 * d * kv * dh + h * dh * d);
    EXPECT_EQ(gqa.mixer->state_scalars(10), 2 * 10 * kv * dh);
  }
}

TEST(Gqa, ByDefaultTwoQueryHeadsShareOne) {
  EXPECT_EQ(Attention("gqa").mixer->state_scalars(1), 2 * 3 * kHeadDim);
  EXPECT_EQ(Attention("gqa", 15, 3).mixer->state_scalars(1), 2 * 1 * 5);  // an odd number of heads shares one
}

TEST(Gqa, GroupsMustDivideTheHeads) {
  try {
    Attention gqa("{type: gqa, num_key_value_heads: 4}");
    FAIL() << "took 4 groups of 6 heads";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "gqa: num_key_value_heads must divide num_attention_heads 6, got 4");
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace lithe
