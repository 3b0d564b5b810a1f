#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Tensor attended(const Tensor& x, const std::string& options, bool causal = false) {
  kit::Bench bench;
  const auto mixer = bench.make<Mixer>(
      "attention", {.hidden_size = x.cols(), .max_position_embeddings = 9, .causal = causal}, options);
  EXPECT_EQ(bench.parameters().count(), 0);
  return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
}

constexpr const char* kOne = "{num_attention_heads: 1, heads: identity, output: none}";

// oracle: attn.dot_single
TEST(IdentityHeads, HaveTheTextbooksWeights) {
  // H = I_2: the weighted rows are the weights.
  EXPECT_EQ(kit::close_to_printed(attended(kit::identity(2), kOne), {0.669762, 0.330238, 0.330238, 0.669762}, 6), "");
}

TEST(IdentityHeads, EqualRowsComeBack) {
  const Tensor row = kit::normal({1, 6}, DType::f64, 1), x = kit::concatenate({row, row, row, row});
  EXPECT_EQ(kit::close(attended(x, kOne), x, 8), "");
  EXPECT_EQ(kit::close(attended(x, kOne, true), x, 8), "");
}

TEST(IdentityHeads, RowsInAnotherOrderGiveTheSameRowsInThatOrder) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 2);
  const std::vector<int64_t> order{3, 0, 4, 2, 1};
  EXPECT_EQ(kit::close(attended(kit::rows_of(x, order), kOne), kit::rows_of(attended(x, kOne), order), 16), "");
}

TEST(IdentityHeads, EqualMhaWithUnitMatrices) {
  kit::Bench bench;
  const auto mha =
      bench.make<Mixer>("attention", {.hidden_size = 6, .max_position_embeddings = 9}, "{num_attention_heads: 1}");
  for (Parameter& p : bench.parameters().all()) kit::assign(p.master.value(), kit::identity(6));
  const Tensor x = kit::normal({5, 6}, DType::f64, 3);
  EXPECT_EQ(kit::close(attended(x, kOne, true), mha->forward({Var(x), Sequences::single(5), nullptr}).value(), 16), "");
}

// oracle: lowdim.subspace
TEST(IdentityHeads, EachSeesItsOwnChannels) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 4);
  const Tensor y = attended(x, "{num_attention_heads: 2, heads: identity, output: none}");
  for (const auto& channels : {std::vector<int64_t>{0, 1, 2}, {3, 4, 5}})
    EXPECT_EQ(kit::close(kit::columns_of(y, channels), attended(kit::columns_of(x, channels), kOne), 8), "");
}

TEST(IdentityHeads, RememberOneRowAToken) {
  kit::Bench bench;
  const auto rotary =
      bench.make<Position>("rotary", {.hidden_size = 6, .max_position_embeddings = 9}, "{}", "position");
  EXPECT_EQ(bench.make<Mixer>("attention", {.hidden_size = 6, .max_position_embeddings = 9}, kOne)
                    ->state_bytes({10}, DType::bf16) /
                2,
            10 * 6);
  EXPECT_EQ(
      bench.make<Mixer>("attention", {.hidden_size = 6, .max_position_embeddings = 9, .position = rotary.get()}, kOne)
              ->state_bytes({10}, DType::bf16) /
          2,
      10 * 6);
}

TEST(IdentityHeads, RefuseWhatTheyCannotDo) {
  kit::Bench bench;
  for (const char* options : {"{num_attention_heads: 2, head_dim: 4, heads: identity}",
                              "{num_attention_heads: 2, heads: identity, attention_bias: true}"}) {
    try {
      bench.make<Mixer>("attention", {.hidden_size = 6}, options);
      FAIL() << options;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find("part identity"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace lithe
