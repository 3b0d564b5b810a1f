#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Attending {
  Attending(const std::string& type, const std::string& options, bool causal)
      : mixer(bench.make<Mixer>(type, {.hidden_size = 8, .max_position_embeddings = 600, .causal = causal}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

void fill(const Tensor& x, double value) {
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, value);
}

void reset_windows(Attending& of, int64_t size) {
  for (const char* map : {"conv_keys", "conv_values"}) {
    for (int64_t t = 0; t < size; ++t) fill(of.bench[cat("part.", map, ".", t, ".taps")], 1);
    fill(of.bench[cat("part.", map, ".bias")], 0);
  }
}

// oracle: lowdim.conv_kv
TEST(ConvKv, WindowsOfOneTokenAreAttention) {
  Attending conv("conv_kv", "{num_attention_heads: 2, kernel_size: 1, stride: 1}", false),
      mha("attention", "{num_attention_heads: 2}", false);
  reset_windows(conv, 1);
  for (Parameter& p : mha.bench.parameters().all()) copy_into(p.master.value(), conv.bench[p.name]);
  const Tensor x = kit::normal({9, 8}, DType::f64, 1);
  EXPECT_LE(kit::largest_difference(conv(x), mha(x)), 1e-12);
}

// With keys that are all equal, weights are even: over the windows' means, and what stands behind them.
// oracle: lowdim.conv_kv
TEST(ConvKv, MeansOfWindowsAreSeen) {
  for (const bool rest : {true, false}) {
    Attending conv("conv_kv", cat("{num_attention_heads: 2, output: none, keep_rest: ", rest ? "true}" : "false}"),
                   false);
    reset_windows(conv, 3);
    fill(conv.bench["part.heads.k.weight"], 0);
    const Tensor x = kit::normal({8, 8}, DType::f64, 1), y = conv(x);
    const Tensor v = kit::product(x, conv.bench["part.heads.v.weight"]);
    for (int64_t c = 0; c < 8; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < 6; ++i) sum += value_at(v, i * 8 + c) / 3;
      if (rest) sum += value_at(v, 6 * 8 + c) + value_at(v, 7 * 8 + c);
      for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(value_at(y, i * 8 + c), sum / (rest ? 4 : 2), 1e-12);
    }
  }
}

// Token i sees the windows that ended by then, and itself.
// oracle: lowdim.conv_kv
TEST(ConvKv, CausalTokensSeeWindowsThatEndedAndThemselves) {
  Attending conv("conv_kv", "{num_attention_heads: 2, output: none, kernel_size: 2, stride: 3}", true);
  reset_windows(conv, 2);
  fill(conv.bench["part.heads.k.weight"], 0);
  const Tensor x = kit::normal({8, 8}, DType::f64, 1), y = conv(x);
  const Tensor v = kit::product(x, conv.bench["part.heads.v.weight"]);
  const auto mean = [&](int64_t first, int64_t c) {
    return (value_at(v, first * 8 + c) + value_at(v, (first + 1) * 8 + c)) / 2;
  };
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t c = 0; c < 8; ++c) {
      double sum = value_at(v, i * 8 + c);
      int64_t count = 1;
      for (int64_t first = 0; first + 1 <= i; first += 3, ++count) sum += mean(first, c);
      EXPECT_NEAR(value_at(y, i * 8 + c), sum / double(count), 1e-12) << i;
    }
}

// 512 tokens, windows of 3 every 2: 255 windows, and 2 rows that wait.
// oracle: lowdim.conv_kv
TEST(ConvKv, CacheAndNumbers) {
  const auto of = [](const std::string& options) {
    return Attending("conv_kv", "{num_attention_heads: 2, " + options + "}", true).bench.parameters().count();
  };
  EXPECT_EQ(of("kernel_size: 3"), 4 * 64 + 2 * (3 * 8 + 8));
  EXPECT_EQ(of("kernel_size: 3, depthwise: false"), 4 * 64 + 2 * (3 * 64 + 8));
  EXPECT_EQ(of("kernel_size: 3, reduced_dim: 2"), 4 * 64 + 2 * (3 * 8 + 8) + 2 * 2 * 8);
  const Attending conv("conv_kv", "{num_attention_heads: 2, kernel_size: 3, stride: 2}", true);
  EXPECT_EQ(conv.mixer->state_bytes({512}, DType::f64), (255 * 16 + 2 * 16) * 8);
}

// oracle: lowdim.combined
TEST(ConvKv, FewerKeysAndNarrowerOnesWithUnitMaps) {
  Attending narrow("conv_kv", "{num_attention_heads: 2, kernel_size: 2, stride: 2, reduced_dim: 4}", true),
      wide("conv_kv", "{num_attention_heads: 2, kernel_size: 2, stride: 2}", true);
  Attending all("conv_kv", "{num_attention_heads: 2, kernel_size: 2, stride: 2, reduced_dim: 4, reduce_values: true}",
                true);
  for (Attending* of : {&narrow, &all}) {
    for (Parameter& p : wide.bench.parameters().all()) copy_into(of->bench[p.name], p.master.value());
    for (const char* name : {"reduce_q", "reduce_k", "reduce_v", "widen"})
      if (Parameter* found = of->bench.parameters().find(cat("part.", name, ".weight"))) {
        const Tensor map = found->master.value();  // [4, 2 heads of 4]
        for (int64_t i = 0; i < map.numel(); ++i) set_value(map, i, i / 8 == i % 4);
      }
    const Tensor x = kit::normal({9, 8}, DType::f64, 1);
    EXPECT_LE(kit::largest_difference((*of)(x), wide(x)), 1e-12);
  }
  EXPECT_EQ(all.bench.parameters().count() - wide.bench.parameters().count(), 4 * 4 * 8);
  const Attending kept(
      "conv_kv", "{num_attention_heads: 2, kernel_size: 3, stride: 2, reduced_dim: 1, reduce_values: true}", true);
  EXPECT_EQ(kept.mixer->state_bytes({512}, DType::f64), (255 * 4 + 2 * 16) * 8);
}

// A target sees the windows of its source, and the tokens behind the last of them, or not those.
// oracle: lowdim.conv_kv
TEST(ConvKv, CrossAttentionSeesTheWindowsOfTheSource) {
  for (const bool rest : {true, false}) {
    kit::Bench bench;
    const auto mixer =
        bench.make<Mixer>("conv_kv", {.hidden_size = 8, .cross = true},
                          cat("{num_attention_heads: 2, output: none, kernel_size: 3, stride: 2, keep_rest: ",
                              rest ? "true}" : "false}"));
    kit::randomise(bench.parameters(), 5);
    for (int64_t t = 0; t < 3; ++t) fill(bench[cat("part.conv_values.", t, ".taps")], 1);
    fill(bench["part.conv_values.bias"], 0);
    fill(bench["part.heads.q.weight"], 0);  // even weights
    const Tensor x = kit::normal({4, 8}, DType::f64, 1), source = kit::normal({8, 8}, DType::f64, 2);
    const Tensor v = kit::product(source, bench["part.heads.v.weight"]);
    const auto mean_of_keys = [&](int64_t length, int64_t c) {
      double sum = 0;
      int64_t count = 0, read = 0;
      for (int64_t first = 0; first + 3 <= length; first += 2, ++count, read = first + 1)
        for (int64_t t = 0; t < 3; ++t) sum += value_at(v, (first + t) * 8 + c) / 3;
      for (int64_t i = read; rest && i < length; ++i, ++count) sum += value_at(v, i * 8 + c);
      return count ? sum / double(count) : 0.0;
    };
    for (const int64_t length : {8, 7, 2}) {  // 3 windows and one token, 3 windows, none
      const Rows memory{Var(source.slice(0, length)), Sequences::single(length)};
      const Tensor y = mixer->forward({.x = Var(x), .sequences = Sequences::single(4), .source = &memory}).value();
      for (int64_t c = 0; c < 8; ++c)
        for (int64_t i = 0; i < 4; ++i)
          EXPECT_NEAR(value_at(y, i * 8 + c), mean_of_keys(length, c), 1e-12) << length << " of " << rest;
    }
    EXPECT_EQ(mixer->state_bytes({8, 7, 2}, DType::f64), (3 + 3 + (rest ? 1 + 2 : 0)) * 16 * 8);
  }
}

}  // namespace
}  // namespace lithe
