#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TEST(NoOutput, GivesTheHeadsAsTheyAre) {
  kit::Bench bench;
  const auto part = bench.make<Output>("none", {.context = 6, .hidden_size = 6});
  const Tensor x = kit::normal({5, 6}, DType::f64, 2);
  EXPECT_EQ(kit::bit_difference(part->forward(Var(x)).value(), x), "");
  EXPECT_EQ(bench.parameters().count(), 0);
}

TEST(NoOutput, NeedsHeadsAsWideAsTheRows) {
  try {
    Model(kit::model_config("{vocab_size: 5, hidden_size: 8, max_position_embeddings: 4, mixer: {type: attention, "
                            "num_attention_heads: 2, head_dim: 6, output: none}}"),
          {});
    FAIL() << "took 12 channels";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "output: part none needs heads * head_dim = hidden_size 8, got 12");
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

// Without W_c the heads' results stay apart: head i writes its own channels only.
TEST(NoOutput, HeadsWriteTheirOwnChannels) {
  kit::Bench bench;
  const auto mixer = bench.make<Mixer>("attention", {.hidden_size = 6, .max_position_embeddings = 4},
                                       "{num_attention_heads: 3, output: none}");
  kit::randomise(bench.parameters(), 1);
  const Tensor x = kit::normal({5, 6}, DType::f64, 2);
  const Tensor before = mixer->forward({Var(x), Sequences::single(5), nullptr}).value();
  const Tensor q = bench["part.heads.q.weight"];
  for (int64_t r = 0; r < 6; ++r) set_value(q, r * 6 + 2, 1);  // a channel of head 1
  const Tensor after = mixer->forward({Var(x), Sequences::single(5), nullptr}).value();
  EXPECT_EQ(kit::bit_difference(kit::columns_of(after, {0, 1, 4, 5}), kit::columns_of(before, {0, 1, 4, 5})), "");
  EXPECT_NE(kit::bit_difference(kit::columns_of(after, {2, 3}), kit::columns_of(before, {2, 3})), "");
}

}  // namespace
}  // namespace lithe
