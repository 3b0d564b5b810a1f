#include "lithe/ops/token_map.h"

#include "lithe/ops/attention.h"
#include "lithe/ops/fourier.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

constexpr kernels::AttentionMask kCausal{.causal = true};

// Attention in one sequence is its map, mixed.
TEST(TokenMapOp, MixedByItsMapIsAttention) {
  const std::vector<Tensor> inputs{kit::normal({6, 6}, DType::f64, 1), kit::normal({6, 6}, DType::f64, 2),
                                   kit::normal({6, 6}, DType::f64, 3)};
  const Sequences one = Sequences::single(6);
  for (const auto& mask : {kCausal, kernels::AttentionMask{}})
    kit::expect_same(
        [&](const std::vector<Var>& in) { return mix_tokens(attention_map(in[0], in[1], 3, 0, mask), in[2], one, 3); },
        [&](const std::vector<Var>& in) {
          return attend(in[0], in[1], in[2], one, one, {.heads = 3, .kv_heads = 3, .mask = mask});
        },
        inputs, 64);
}

TEST(TokenMapOp, Gradients) {
  const Sequences sequences({0, 3, 3, 8});
  kit::expect_gradients(
      [&](const std::vector<Var>& in) {
        return mix_tokens(attention_map(in[0], in[1], 2, 0.3, kCausal), in[2], sequences, 2);
      },
      {kit::normal({5, 4}, DType::f64, 1), kit::normal({5, 4}, DType::f64, 2), kit::normal({8, 6}, DType::f64, 3)});
  kit::expect_gradients(
      [&](const std::vector<Var>& in) { return mix_tokens(masked_map(in[0], kCausal), in[1], sequences, 1); },
      {kit::normal({7, 7}, DType::f64, 4), kit::normal({8, 3}, DType::f64, 5)});
  kit::expect_gradients([&](const std::vector<Var>& in) { return fourier(in[0], sequences); },
                        {kit::normal({8, 5}, DType::f64, 6)});
}

// A shorter sequence uses the leading block of the map of a longer one.
TEST(TokenMapOp, LeadingBlocksServeShorterSequences) {
  const Tensor map = kit::normal({5, 5}, DType::f64, 1), x = kit::normal({3, 2}, DType::f64, 2);
  Tensor block = empty({3, 3}, DType::f64);
  for (int64_t i = 0; i < 9; ++i) set_value(block, i, value_at(map, i / 3 * 5 + i % 3));
  EXPECT_EQ(kit::close(mix_tokens(map, x, Sequences::single(3), 1).value(), kit::product(block, x), 16), "");
  for (int64_t t = 0; t < 3; ++t) {
    Tensor triangle = clone(block);
    for (int64_t i = 0; i < 9; ++i)
      if (i % 3 > i / 3) set_value(triangle, i, 0);
    EXPECT_EQ(kit::close(mix_cached(map, x, t), clone(kit::product(triangle, x).slice(t, t + 1)), 16), "");
  }
}

TEST(TokenMapOp, RefusesWhatDoesNotFit) {
  const Var x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::error_of([&] {
              mix_tokens(kit::normal({5, 5}, DType::f64, 1), x, Sequences::single(6), 1);
            }),
            "mix_tokens: sequence 0 has 6 tokens, the map covers 5");
  EXPECT_NE(kit::error_of([&] {
              attention_map(x, kit::normal({5, 4}, DType::f64, 1), 2, 0, kCausal);
            }).find("one shape"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
