#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/attention.h"
#include "lithe/ops/taylor_attention.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

using kernels::TaylorKind;

struct Approx {
  Approx(int64_t d, const std::string& options, const Position* position = nullptr)
      : mixer(bench.make<Mixer>("approx",
                                {.hidden_size = d, .max_position_embeddings = 40, .causal = true, .position = position},
                                options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: decon.approx
TEST(ApproxMixer, GivesTheWorkedDataSet) {
  for (const TaylorKind kind : {TaylorKind::full, TaylorKind::diag}) {
    const Tensor out = attend_taylor(kit::tensor_f64({2, 2}, {.5, -1, 1, 0}), kit::tensor_f64({2, 2}, {1, 0, -1, 2}),
                                     kit::tensor_f64({2, 2}, {1, 2, 3, -1}), Sequences::single(2), {.kind = kind})
                           .value();
    EXPECT_EQ(kit::close_to_printed(out, {1, 2, 1.434315, 1.348528}, 6), "");
  }
  // The second query's weights before they are divided.
  kernels::TaylorArgs args{.q = kit::tensor_f64({2, 2}, {.5, -1, 1, 0}),
                           .k = kit::tensor_f64({2, 2}, {1, 0, -1, 2}),
                           .v = kit::tensor_f64({2, 2}, {1, 0, 0, 1}),
                           .out = zeros({2, 2}, DType::f64),
                           .sums = zeros({2, 1}, DType::f64),
                           .segments = {{0, 2, 0, {}}},
                           .heads = 1,
                           .head_dim = 2,
                           .value_dim = 2,
                           .scale = 1 / std::sqrt(2.0)};
  kernels::taylor_attention(args);
  const double sum = value_at(args.sums, 1);
  EXPECT_NEAR(value_at(args.out, 2) * sum, 1.957107, 5e-7);
  EXPECT_NEAR(value_at(args.out, 3) * sum, .542893, 5e-7);
}

// oracle: decon.approx
TEST(ApproxMixer, DiffersFromSoftmaxAsPrinted) {
  const Tensor q = kit::tensor_f64({2, 2}, {1, 1, 1, 1}), k = kit::tensor_f64({2, 2}, {1, 1, 0, 1}),
               v = kit::tensor_f64({2, 2}, {1, 0, 0, 1});
  const Sequences sequences = Sequences::single(2);
  const auto second = [](const Tensor& out) { return clone(out.slice(1, 2)); };
  const auto taylor = [&](TaylorKind kind) {
    return second(attend_taylor(q, k, v, sequences, {.kind = kind}).value());
  };
  EXPECT_EQ(kit::close_to_printed(taylor(TaylorKind::full), {.635638, .364362}, 6), "");
  EXPECT_EQ(kit::close_to_printed(taylor(TaylorKind::diag), {.598239, .401761}, 6), "");
  EXPECT_EQ(kit::close_to_printed(taylor(TaylorKind::split), {1.833333, 1.166667}, 6), "");
  const Tensor softmax = attend(q, k, v, sequences, sequences, {.mask = {.causal = true}}).value();
  EXPECT_EQ(kit::close_to_printed(second(softmax), {.669762, .330238}, 6), "");
}

// oracle: decon.approx
TEST(ApproxMixer, IsAttentionWithItsWeightsForSmallQueries) {
  // The same parameters in both: the difference falls as the cube of the queries.
  kit::Bench bench;
  const auto attention = bench.make<Mixer>("attention", {.hidden_size = 8}, "{num_attention_heads: 2}");
  Approx mixer(8, "{num_attention_heads: 2}");
  kit::copy_values(bench.parameters(), mixer.bench.parameters());
  const Tensor x = kit::normal({6, 8}, DType::f64, 1), q = mixer.bench["part.heads.q.weight"],
               same = bench["part.heads.q.weight"], original = clone(q);
  const auto difference = [&](double c) {
    for (int64_t i = 0; i < q.numel(); ++i) {
      set_value(q, i, c * value_at(original, i));
      set_value(same, i, c * value_at(original, i));
    }
    return kit::largest_difference(mixer(x), attention->forward({Var(x), Sequences::single(6), nullptr}).value());
  };
  EXPECT_NEAR(difference(0.02) / difference(0.01), 8, 0.5);
}

// oracle: decon.approx
TEST(ApproxMixer, DecodesWhatItComputesInParallelInEveryMode) {
  kit::Bench bench;
  const auto rotary = bench.make<Position>("rotary", {.hidden_size = 8, .max_position_embeddings = 40});
  for (const std::string mode : {"full", "diag", "split"})
    for (const std::string rotates : {"true", "false"}) {
      const Approx mixer(8,
                         cat("{num_attention_heads: 2, attention_bias: true, mode: ", mode, ", rotary: ", rotates, "}"),
                         rotary.get());
      const Tensor x = kit::normal({20, 8}, DType::f64, 1), whole = mixer(x);
      for (const std::vector<int64_t>& ends : {std::vector<int64_t>{1, 2, 3, 4, 5, 20}, {12, 13, 20}}) {
        const auto state = mixer.mixer->make_state({1, 20, DType::f64, Device::cpu});
        std::vector<Tensor> rows;
        int64_t begin = 0;
        for (const int64_t end : ends) {
          rows.push_back(
              mixer.mixer->forward({Var(x.slice(begin, end)), Sequences({0, end - begin}, {begin}), state.get()})
                  .value());
          begin = end;
        }
        // 1e-10 in f64.
        EXPECT_EQ(kit::close(kit::concatenate(rows), whole, 1e-10 / 0x1p-53), "") << mode << " rotary " << rotates;
      }
    }
}

// oracle: decon.approx
TEST(ApproxMixer, RotaryPositionsCanBeLeftOut) {
  kit::Bench bench;
  const auto rotary = bench.make<Position>("rotary", {.hidden_size = 8, .max_position_embeddings = 40});
  const Tensor x = kit::normal({5, 8}, DType::f64, 1);
  const Approx turned(8, "{num_attention_heads: 2}", rotary.get()), plain(8, "{num_attention_heads: 2}"),
      off(8, "{num_attention_heads: 2, rotary: false}", rotary.get());
  EXPECT_GT(kit::largest_difference(turned(x), plain(x)), 1e-4);
  EXPECT_EQ(kit::bit_difference(off(x), plain(x)), "");
  EXPECT_THROW(Approx(6, "{num_attention_heads: 2}", rotary.get()), Error);  // three channels cannot turn in pairs
  Approx(6, "{num_attention_heads: 2, rotary: false}", rotary.get());
}

// oracle: decon.approx
TEST(ApproxMixer, WeightsAreThoseOfTheMaps) {
  // Outputs are the maps times the values; full and diag rows sum to 1, split rows to 3.
  for (const std::string mode : {"full", "diag", "split"}) {
    Approx mixer(4, cat("{num_attention_heads: 2, output: none, mode: ", mode, "}"));
    const Tensor x = kit::normal({6, 4}, DType::f64, 5), y = mixer(x);
    const MixerMaps maps = mixer.mixer->maps({Var(x), Sequences::single(6), nullptr});
    const Tensor values = kit::product(x, mixer.bench["part.heads.v.weight"]);
    ASSERT_EQ(maps.heads, 2);
    for (int64_t head = 0; head < 2; ++head) {
      const Tensor map = convert(clone(maps.weights.slice(head * 6, head * 6 + 6)), DType::f64);
      double largest = 0;
      for (double w : kit::values(map)) largest = std::max(largest, std::abs(w));
      const Tensor mine = kit::columns_of(values, {2 * head, 2 * head + 1});
      EXPECT_LE(kit::largest_difference(kit::product(map, mine), kit::columns_of(y, {2 * head, 2 * head + 1})),
                6 * 4 * 0x1p-24 * largest)
          << mode;
      for (int64_t i = 0; i < 6; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < 6; ++j) sum += value_at(map, i * 6 + j);
        EXPECT_NEAR(sum, mode == "split" ? 3 : 1, 6 * 0x1p-24 * largest) << mode;
        for (int64_t j = 0; j < 6; ++j) EXPECT_TRUE(mode != "full" || value_at(map, i * 6 + j) >= 0);
      }
    }
  }
}

// oracle: decon.approx, acct.cache
TEST(ApproxMixer, StateHasThePublishedScalars) {
  // (B, d, h) = (1, 896, 14): 3d + 2d^2/h scalars for diag and split, published as 234,752 bytes of fp16 and kept in
  // f32.
  for (const std::string mode : {"diag", "split"}) {
    const Approx mixer(896, "{num_attention_heads: 14, mode: " + mode + "}");
    EXPECT_EQ(mixer.mixer->make_state({1, 2048, DType::bf16, Device::cpu})->bytes(), 234752 / 2 * 4) << mode;
    EXPECT_EQ(mixer.mixer->state_bytes({2048, 1}, DType::bf16), 2 * 234752 / 2 * 4) << mode;
  }
  for (const auto& [d, h] : {std::pair<int64_t, int64_t>{24, 4}, {16, 2}, {6, 6}}) {
    const Approx mixer(d, cat("{num_attention_heads: ", h, "}"));
    const int64_t head_dim = d / h, features = 1 + head_dim + head_dim * head_dim;
    EXPECT_EQ(mixer.mixer->state_bytes({5}, DType::f32), h * features * (head_dim + 1) * 4);
    EXPECT_EQ(mixer.mixer->make_state({1, 9, DType::f32, Device::cpu})->bytes(), h * features * (head_dim + 1) * 4);
  }
}

// oracle: decon.approx
TEST(ApproxMixer, ParametersAreThoseOfAttention) {
  for (const int64_t d : {6, 12, 24}) {
    kit::Bench a, b;
    a.make<Mixer>("attention", {.hidden_size = d}, "{num_attention_heads: 3}");
    b.make<Mixer>("approx", {.hidden_size = d}, "{num_attention_heads: 3}");
    EXPECT_EQ(b.parameters().count(), 4 * d * d);
    for (const Parameter& p : a.parameters().all()) EXPECT_NE(b.parameters().find(p.name), nullptr) << p.name;
  }
}

// oracle: decon.approx
TEST(ApproxMixer, CrossFormReadsItselfAsAnEncoderDoesFromAStateOfConstantSize) {
  for (const std::string mode : {"full", "diag", "split"}) {
    kit::Bench one, other;
    const std::string options = cat("{num_attention_heads: 2, mode: ", mode, "}");
    const auto whole = one.make<Mixer>("approx", {.hidden_size = 8, .causal = false}, options),
               cross = other.make<Mixer>("approx", {.hidden_size = 8, .cross = true}, options);
    kit::randomise(one.parameters(), 3);
    kit::copy_values(one.parameters(), other.parameters());
    const Rows source{Var(kit::normal({9, 8}, DType::f64, 4, 0.3, 1)), Sequences({0, 4, 9})};
    const Tensor want = whole->forward({source.x, source.sequences}).value(),
                 got = cross->forward({.x = source.x, .sequences = source.sequences, .source = &source}).value();
    EXPECT_LE(kit::largest_difference(got, want), 1e-12) << mode;

    const auto state = cross->make_state({.sequences = 2, .capacity = 9, .dtype = DType::f64});
    EXPECT_EQ(state->bytes(), 0) << mode;
    cross->read_source(*state, source);
    EXPECT_EQ(state->bytes(), cross->state_bytes({1, 1000}, DType::f64)) << mode;
    const Tensor decoded = cross->forward({source.x, source.sequences, state.get()}).value();
    EXPECT_LE(kit::largest_difference(decoded, want), 1e-12) << mode;
  }
}

}  // namespace
}  // namespace lithe
