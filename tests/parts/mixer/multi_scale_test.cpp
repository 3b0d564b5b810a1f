#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Scaled {
  explicit Scaled(const std::string& options, bool causal = false, const std::string& type = "multi_scale",
                  bool cross = false)
      : mixer(bench.make<Mixer>(
            type, {.hidden_size = 8, .max_position_embeddings = 40, .causal = causal, .cross = cross}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: ms.heads
TEST(MultiScale, OfScaleOneIsAttention) {
  for (const bool causal : {false, true}) {
    Scaled scaled("{num_attention_heads: 2, scales: [1]}", causal),
        mha("{num_attention_heads: 2}", causal, "attention");
    EXPECT_EQ(scaled.bench.parameters().count(), 4 * 8 * 8);
    for (Parameter& p : mha.bench.parameters().all()) {
      std::string name = p.name;  // part.heads.q.weight, part.output.weight
      name.replace(0, 4, "part.scale_1");
      if (const size_t heads = name.find("heads."); heads != std::string::npos) name.erase(heads, 6);
      copy_into(p.master.value(), scaled.bench[name]);
    }
    const Tensor x = kit::normal({9, 8}, DType::f64, 1);
    EXPECT_EQ(kit::bit_difference(scaled(x), mha(x)), "") << causal;
  }
}

// oracle: ms.heads
TEST(MultiScale, AScaleOfTheWholeTextGivesTheMeanValue) {
  Scaled scaled("{num_attention_heads: 2, scales: [9]}");
  const Tensor x = kit::normal({7, 8}, DType::f64, 1), y = scaled(x);
  Tensor mean = zeros({1, 8}, DType::f64);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(mean, i % 8, value_at(mean, i % 8) + value_at(x, i) / 7);
  const Tensor expected = kit::product(kit::product(mean, scaled.bench["part.scale_9.v.weight"]),
                                       scaled.bench["part.scale_9.output.weight"]);
  for (int64_t i = 0; i < y.numel(); ++i) EXPECT_NEAR(value_at(y, i), value_at(expected, i % 8), 1e-13);
}

// Keys that are all equal give even weights: over the blocks that ended before the token, and its own value.
// oracle: ms.heads
TEST(MultiScale, CausalTokensSeeBlocksThatEndedAndThemselves) {
  Scaled scaled("{num_attention_heads: 2, scales: [3]}", true);
  fill_zero(scaled.bench["part.scale_3.k.weight"]);
  copy_into(scaled.bench["part.scale_3.output.weight"], kit::identity(8));
  const Tensor x = kit::normal({8, 8}, DType::f64, 1), y = scaled(x);
  const Tensor v = kit::product(x, scaled.bench["part.scale_3.v.weight"]);
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t c = 0; c < 8; ++c) {
      double sum = value_at(v, i * 8 + c);
      const int64_t blocks = i / 3;
      for (int64_t j = 0; j < blocks * 3; ++j) sum += value_at(v, j * 8 + c) / 3;
      EXPECT_NEAR(value_at(y, i * 8 + c), sum / double(blocks + 1), 1e-13) << i;
    }
  // A block is seen once it has ended.
  const Tensor moved = clone(x);
  set_value(moved, 3 * 8, 9);
  EXPECT_EQ(kit::changed_rows(y, scaled(moved)), (std::vector<int64_t>{3, 6, 7}));
}

// oracle: ms.heads
TEST(MultiScale, HeadsTakeTurns) {
  Scaled scaled("{num_attention_heads: 4, scales: [1, 2, 4]}");
  EXPECT_EQ(scaled.bench["part.scale_1.q.weight"].shape(), (Shape{8, 4}));  // heads 1 and 4
  EXPECT_EQ(scaled.bench["part.scale_2.q.weight"].shape(), (Shape{8, 2}));
  EXPECT_EQ(scaled.bench["part.scale_4.q.weight"].shape(), (Shape{8, 2}));
  EXPECT_EQ(scaled.bench.parameters().count(), 4 * 8 * 8);
}

TEST(MultiScale, SpansOfAColumn) {
  Scaled spans("{num_attention_heads: 2, scales: [0], spans: phrases}"),
      blocks("{num_attention_heads: 2, scales: [2]}");
  for (const char* of : {"q", "k", "v", "output"})
    copy_into(blocks.bench[cat("part.scale_2.", of, ".weight")], spans.bench[cat("part.spans.", of, ".weight")]);
  EXPECT_EQ(spans.mixer->reads_columns(), std::vector<std::string>{"phrases"});
  EXPECT_EQ(spans.mixer->state_bytes({3}, DType::f32), 0);
  const Tensor x = kit::normal({5, 8}, DType::f64, 1);
  Pass pass;
  pass.give("phrases", kit::ids_of({0, 0, 1, 1, 2}));
  const Sequences five = Sequences::single(5);
  EXPECT_EQ(
      kit::bit_difference(
          spans.mixer->forward({.x = Var(x), .sequences = five, .state = nullptr, .pass = pass}).value(), blocks(x)),
      "");
}

TEST(MultiScale, SaysWhatItCannotDo) {
  const auto refused = [](const std::string& options, bool causal, bool cross = false) {
    return kit::coded_error_of([&] { Scaled(options, causal, "multi_scale", cross); });
  };
  EXPECT_NE(refused("{num_attention_heads: 2, scales: [0], spans: a}", true).find("a causal model needs blocks"),
            std::string::npos);
  EXPECT_NE(
      refused("{num_attention_heads: 2, scales: [0], spans: a}", false, true).find("cross-attention needs blocks"),
      std::string::npos);
  EXPECT_NE(refused("{num_attention_heads: 2, scales: [0]}", false).find("name their column: spans"),
            std::string::npos);
  EXPECT_NE(refused("{num_attention_heads: 2, spans: a}", false).find("no head has scale 0"), std::string::npos);
  EXPECT_NE(refused("{num_attention_heads: 3}", false).find("must be a multiple of num_attention_heads 3"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
