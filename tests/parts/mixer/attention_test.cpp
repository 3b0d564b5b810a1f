#include <gtest/gtest.h>

#include <cmath>

#include "tests/parts/heads/attention_bench.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

using kit::AttentionBench;

TEST(AttentionMixer, TheLiteralScaleDividesByTheRootOfTheWidth) {
  // 1/sqrt(d) instead of 1/sqrt(d_h): queries smaller by sqrt(h). With 4 heads that is 1/2, which rounds nothing.
  const Tensor x = kit::normal({5, 8}, DType::f64, 1);
  AttentionBench literal("mha", 8, 4, "scale: sqrt_hidden"), standard("mha", 8, 4),
      one("mha", 8, 1, "scale: sqrt_hidden"), other("mha", 8, 1);
  EXPECT_GT(kit::largest_difference(literal(x), standard(x)), 1e-3);
  const Tensor q = standard["heads.q.weight"];
  for (int64_t i = 0; i < q.numel(); ++i) set_value(q, i, value_at(q, i) / 2);
  EXPECT_EQ(kit::close(literal(x), standard(x), 32), "");
  EXPECT_EQ(kit::bit_difference(one(x), other(x)), "");
}

TEST(AttentionMixer, HeadsMayBeNarrowerOrWiderThanTheRows) {
  EXPECT_EQ(AttentionBench("mha", 7, 3, "head_dim: 2")(kit::normal({4, 7}, DType::f64, 1)).shape(), (Shape{4, 7}));
  EXPECT_EQ(AttentionBench("mha", 2, 3, "head_dim: 5")(kit::normal({4, 2}, DType::f64, 1)).shape(), (Shape{4, 2}));
  try {
    AttentionBench("mha", 7, 3);
    FAIL() << "took 7 channels for 3 heads";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "attention: hidden_size 7 must be a multiple of num_attention_heads 3, or give head_dim");
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

TEST(AttentionMixer, BiasesOfTheOutputAreAdded) {
  AttentionBench mixer("mha", 6, 3, "output_bias: true"), bare("mha", 6, 3);
  const Tensor bias = mixer["output.bias"];
  EXPECT_EQ(mixer.bench.parameters().find("part.heads.q.bias"), nullptr);
  const Tensor x = kit::normal({1, 6}, DType::f64, 1);
  EXPECT_EQ(kit::close(mixer(x), kit::sum(bare(x), bias.reshape({1, 6})), 8), "");
}

// Cross-attention of rows x [T,d] to rows of another text.
struct CrossAttention {
  explicit CrossAttention(const std::string& options)
      : mixer(bench.make<Mixer>("attention", {.hidden_size = 6, .causal = false, .cross = true}, options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x, const Tensor& source) const {
    const Rows memory{source, Sequences::single(source.rows())};
    return mixer->forward({.x = x, .sequences = Sequences::single(x.rows()), .source = &memory}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: mixer.cross
TEST(AttentionMixer, CrossAttentionToOneRowIsItsValue) {
  CrossAttention cross("{num_attention_heads: 3}");
  const Tensor x = kit::normal({4, 6}, DType::f64, 1), source = kit::normal({1, 6}, DType::f64, 3);
  const Tensor value =
      kit::product(kit::product(source, cross.bench["part.heads.v.weight"]), cross.bench["part.output.weight"]);
  EXPECT_EQ(kit::close(cross(x, source), kit::rows_of(value, {0, 0, 0, 0}), 16), "");
}

// oracle: mixer.cross
TEST(AttentionMixer, CrossAttentionDoesNotSeeAShiftOfKeysAndPassesOneOfValues) {
  CrossAttention cross("{num_attention_heads: 3, attention_bias: true}");
  const Tensor x = kit::normal({4, 6}, DType::f64, 1), source = kit::normal({5, 6}, DType::f64, 3);
  const Tensor before = cross(x, source), shift = kit::normal({1, 6}, DType::f64, 4);
  const auto add_shift = [&](const Tensor& bias) {
    for (int64_t i = 0; i < 6; ++i) set_value(bias, i, value_at(bias, i) + value_at(shift, i));
  };
  add_shift(cross.bench["part.heads.k.bias"]);
  EXPECT_EQ(kit::close(cross(x, source), before, 64), "");
  add_shift(cross.bench["part.heads.v.bias"]);
  const Tensor added = kit::rows_of(kit::product(shift, cross.bench["part.output.weight"]), {0, 0, 0, 0});
  EXPECT_EQ(kit::close(cross(x, source), kit::sum(before, added), 64), "");
}

// Positions of two texts are of no common sequence.
TEST(AttentionMixer, CrossAttentionHasNoPositions) {
  kit::Bench bench;
  const auto rotary = bench.make<Position>("rotary", {.hidden_size = 6}, "{}", "position");
  const auto turned =
      bench.make<Mixer>("attention", {.hidden_size = 6, .causal = false, .position = rotary.get(), .cross = true},
                        "{num_attention_heads: 3, heads: el_att}");
  kit::randomise(bench.parameters(), 2);
  const Tensor x = kit::normal({2, 6}, DType::f64, 1), source = kit::normal({3, 6}, DType::f64, 3);
  const auto run = [&](const Tensor& rows, const Sequences& queries) {
    const Rows memory{rows, Sequences::single(3)};
    return turned->forward({.x = x, .sequences = queries, .source = &memory}).value();
  };
  const Tensor before = run(source, Sequences::single(2));
  EXPECT_EQ(kit::close(run(kit::rows_of(source, {2, 0, 1}), Sequences::single(2)), before, 32), "");
}

// oracle: mixer.cross
TEST(AttentionMixer, CrossAttentionNeedsASource) {
  CrossAttention cross("{num_attention_heads: 3}");
  const Tensor x = kit::normal({2, 6}, DType::f64, 1);
  try {
    cross.mixer->forward({.x = x, .sequences = Sequences::single(2)});
    FAIL() << "read nothing";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cross-attention: needs rows of an encoder");
  }
  const auto state = cross.mixer->make_state({1, 4, DType::f64, Device::cpu});
  EXPECT_THROW(cross.mixer->forward({.x = x, .sequences = Sequences::single(2), .state = state.get()}), Error);
}

// oracle: infer.kv_cache
TEST(AttentionMixer, CacheHoldsTwoRowsATokenAndLayer) {
  // 2 L T h_kv d_h scalars.
  for (const auto& [heads, kv] :
       {std::pair<std::string, int64_t>{"mha", 4}, {"{type: gqa, num_key_value_heads: 2}", 2}, {"mqa", 1}}) {
    const Model model(
        kit::model_config(cat("{vocab_size: 9, hidden_size: 24, num_hidden_layers: 3, max_position_embeddings: 20, "
                              "mixer: {type: attention, num_attention_heads: 4, heads: ",
                              heads, "}}")),
        {});
    for (int64_t tokens : {1, 7, 20}) EXPECT_EQ(model.state_bytes({tokens}), 2 * 3 * tokens * kv * 6 * 4) << heads;
    const auto state = model.make_state(2, 20);
    kit::forward(model, kit::random_ids(7, 9, 1), model.continue_sequences(*state, {5, 2}), state.get());
    EXPECT_EQ(state->bytes(), 2 * 3 * (5 + 2) * kv * 6 * 4) << heads;
  }
}

TEST(AttentionMixer, CacheSaysWhatDoesNotFit) {
  const AttentionBench mixer("mha", 6, 3);
  const auto state = mixer.mixer->make_state({2, 4, DType::f64, Device::cpu});
  const auto feed = [&](const Sequences& sequences) {
    mixer.mixer->forward({Var(kit::normal({sequences.rows(), 6}, DType::f64, 1)), sequences, state.get()});
  };
  feed(Sequences({0, 3, 4}));
  const auto refused = [&](const Sequences& sequences) -> std::string {
    try {
      feed(sequences);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refused(Sequences({0, 1})), "cache: the state holds 2 sequences, got rows of 1");
  EXPECT_EQ(refused(Sequences({0, 1, 2}, {2, 1})), "cache: sequence 0 has 3 tokens, the rows continue after 2");
  EXPECT_EQ(refused(Sequences({0, 1, 5}, {3, 1})), "cache: sequence 1 has room for 4 tokens, got 5");
}

TEST(AttentionMixer, CacheTruncationIsChecked) {
  const AttentionBench mixer("mha", 6, 3);
  const auto state = mixer.mixer->make_state({1, 4, DType::f64, Device::cpu});
  mixer.mixer->forward({Var(kit::normal({3, 6}, DType::f64, 1)), Sequences::single(3), state.get()});
  EXPECT_THROW(state->truncate(0, 4), Error);
  EXPECT_THROW(state->truncate(0, -1), Error);
  EXPECT_THROW(state->reorder({1}), Error);
  state->truncate(0, 3);
  EXPECT_EQ(state->bytes(), 2 * 3 * 6 * 8);
}

// Weights are dropped while training only, differently in each sequence and step; the mean over steps is attention.
TEST(Attention, DropsWeightsWhileTraining) {
  kit::Bench bench;
  const auto mixer = bench.make<Mixer>("attention", {.hidden_size = 6, .max_position_embeddings = 9},
                                       "{num_attention_heads: 3, attention_dropout: 0.5}");
  kit::randomise(bench.parameters(), 2);
  const Tensor one = kit::normal({4, 6}, DType::f64, 1), x = kit::concatenate({one, one});
  const Sequences sequences({0, 4, 8});
  const auto run = [&] { return mixer->forward({Var(x), sequences, nullptr}).value(); };
  const Tensor still = run();
  EXPECT_EQ(kit::bit_difference(still, run()), "");
  Tensor mean = zeros({8, 6}, DType::f64);
  const StepContext before = step_context();
  const int kSteps = 4000;
  for (int step = 0; step < kSteps; ++step) {
    step_context().step = uint64_t(step);
    Tape tape;
    const Tensor y = run();
    for (int64_t i = 0; i < 48; ++i) set_value(mean, i, value_at(mean, i) + value_at(y, i) / kSteps);
    if (step == 0) {
      EXPECT_EQ(kit::bit_difference(y, run()), "");  // a pure function of the step
      EXPECT_GT(kit::largest_difference(clone(y.slice(0, 4)), clone(y.slice(4, 8))), 1e-3);
    }
  }
  step_context() = before;
  // Each mean has a deviation of at most |values| / sqrt(steps); six of them.
  double size = 0;
  for (int64_t i = 0; i < 48; ++i) size = std::max(size, std::abs(value_at(still, i)));
  EXPECT_LT(kit::largest_difference(mean, still), 6 * 2 * size / std::sqrt(double(kSteps)));
}

}  // namespace
}  // namespace lithe
