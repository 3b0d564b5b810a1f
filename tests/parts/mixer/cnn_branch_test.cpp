#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Branches {
  Branches(int64_t d, const std::string& options)
      : mixer(bench.make<Mixer>("cnn_branch", {.hidden_size = d, .max_position_embeddings = 40}, options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};
constexpr const char* kSum =
    "{merge: sum, attention: {type: attention, num_attention_heads: 2}, convolution: {type: convolution, kernel_size: "
    "3, "
    "bias: false}}";

// oracle: arch.cnn_branch
TEST(CnnBranchMixer, WithoutTapsTheSumIsAttention) {
  Branches mixer(4, kSum);
  kit::Bench bench;
  const auto attention = bench.make<Mixer>("attention", {.hidden_size = 4}, "{num_attention_heads: 2}");
  for (Parameter& p : bench.parameters().all())
    copy_into(p.master.value(), mixer.bench["part.attention" + p.name.substr(4)]);
  fill_zero(mixer.bench["part.convolution.taps"]);
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(mixer(x), attention->forward({Var(x), Sequences::single(6), nullptr}).value()), "");
}

// oracle: arch.cnn_branch
TEST(CnnBranchMixer, WithoutAttentionItSeesAsFarAsItsTaps) {
  Branches mixer(4, kSum);
  fill_zero(mixer.bench["part.attention.output.weight"]);
  const Tensor x = kit::normal({8, 4}, DType::f64, 1), moved = clone(x);
  set_value(moved, 2 * 4, value_at(x, 2 * 4) + 1);
  EXPECT_EQ(kit::changed_rows(mixer(x), mixer(moved)), (std::vector<int64_t>{2, 3, 4}));
}

// oracle: arch.cnn_branch
TEST(CnnBranchMixer, EachBranchReadsItsHalf) {
  Branches mixer(
      8, "{attention: {type: attention, num_attention_heads: 2}, convolution: {type: convolution, kernel_size: 3}}");
  EXPECT_EQ(mixer.bench.parameters().count(), 4 * 4 * 4 + (3 * 4 + 4) + 8 * 8);
  const Tensor x = kit::normal({5, 8}, DType::f64, 1), moved = clone(x);
  const Tensor merge = mixer.bench["part.merge.weight"];
  for (int64_t i = 0; i < 32; ++i) set_value(merge, i, 0);  // rows of the first half: what attention gives
  for (int64_t t = 0; t < 5; ++t) set_value(moved, t * 8 + 1, value_at(x, t * 8 + 1) + 1);
  EXPECT_EQ(kit::bit_difference(mixer(moved), mixer(x)), "");
  set_value(moved, 5, value_at(x, 5) + 1);
  EXPECT_EQ(kit::changed_rows(mixer(x), mixer(moved)), (std::vector<int64_t>{0, 1, 2}));
}

// The convolution has the first channels, attention the rest.
// oracle: syn.cnn_transformer_branch
TEST(CnnBranchMixer, TheConvolutionMayHaveTheFirstChannels) {
  Branches mixer(8,
                 "{first: convolution, convolution_channels: 2, attention: {type: attention, num_attention_heads: 2}, "
                 "convolution: {type: convolution, kernel_size: 3}}");
  EXPECT_EQ(mixer.bench.parameters().count(), 4 * 6 * 6 + (3 * 2 + 2) + 8 * 8);
  copy_into(mixer.bench["part.merge.weight"], kit::identity(8));
  const Tensor x = kit::normal({6, 8}, DType::f64, 1), moved = clone(x), near = clone(x);
  for (int64_t t = 0; t < 6; ++t)
    for (int64_t c = 2; c < 8; ++c) set_value(moved, t * 8 + c, value_at(x, t * 8 + c) + 1);
  EXPECT_EQ(kit::bit_difference(kit::columns_of(mixer(moved), {0, 1}), kit::columns_of(mixer(x), {0, 1})), "");
  EXPECT_NE(kit::bit_difference(kit::columns_of(mixer(moved), {2, 3}), kit::columns_of(mixer(x), {2, 3})), "");
  set_value(near, 8 + 1, 5);
  EXPECT_EQ(kit::changed_rows(mixer(near), mixer(x)), (std::vector<int64_t>{1, 2, 3}));
}

// oracle: syn.cnn_transformer_branch
TEST(CnnBranchMixer, WithoutChannelsForTheConvolutionItIsAttention) {
  Branches mixer(4, "{convolution_channels: 0, attention: {type: attention, num_attention_heads: 2}}");
  kit::Bench bench;
  const auto attention = bench.make<Mixer>("attention", {.hidden_size = 4}, "{num_attention_heads: 2}");
  EXPECT_EQ(mixer.bench.parameters().count(), bench.parameters().count());
  for (Parameter& p : bench.parameters().all())
    copy_into(p.master.value(), mixer.bench["part.attention" + p.name.substr(4)]);
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(mixer(x), attention->forward({Var(x), Sequences::single(6), nullptr}).value()), "");
}

// A model gives the columns that a mixer says it reads: those of its branches.
TEST(CnnBranchMixer, ReadsTheColumnsOfItsBranches) {
  using Names = std::vector<std::string>;
  const auto read_by = [](const std::string& attention) {
    kit::Bench bench;
    return bench
        .make<Mixer>("cnn_branch", {.hidden_size = 8, .max_position_embeddings = 40, .causal = false},
                     cat("{attention: ", attention, "}"))
        ->reads_columns();
  };
  EXPECT_EQ(read_by("{type: attention, num_attention_heads: 2}"), Names{});
  EXPECT_EQ(read_by("{type: attention, num_attention_heads: 2, field: tree}"), (Names{"word", "head"}));
  EXPECT_EQ(read_by("{type: branch_attention, num_attention_heads: 2}"), (Names{"word", "head"}));
  EXPECT_EQ(read_by("{type: multi_scale, num_attention_heads: 2, scales: [0], spans: span}"), Names{"span"});
  EXPECT_EQ(read_by("{type: cnn_branch, attention: {type: attention, num_attention_heads: 2, field: tree}}"),
            (Names{"word", "head"}));
}

TEST(CnnBranchMixer, RefusesChannelsThatItDoesNotHave) {
  EXPECT_NE(kit::error_of([] { Branches(8, "{convolution_channels: 8}"); }).find("must be below hidden_size 8"),
            std::string::npos);
  EXPECT_NE(kit::error_of([] { Branches(8, "{merge: sum, convolution_channels: 2}"); }).find("leave"),
            std::string::npos);
  EXPECT_NE(kit::error_of([] { Branches(7, "{}"); }).find("or give convolution_channels"), std::string::npos);
}

}  // namespace
}  // namespace lithe
