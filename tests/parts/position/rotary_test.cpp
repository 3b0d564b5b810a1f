#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// One row turned as if it stood at `position`.
Tensor turned(const Tensor& row, int64_t position, int64_t head_dim, const std::string& options = "{}") {
  kit::Bench bench;
  const auto part = bench.make<Position>("rotary", {.hidden_size = head_dim, .max_position_embeddings = 4}, options);
  return part->turn(Var(row), Sequences({0, 1}, {position}), head_dim).value();
}

double dot(const Tensor& a, const Tensor& b) { return value_at(kit::product(a, b.reshape({b.numel(), 1})), 0); }

// oracle: pos.rope
TEST(Rotary, TurnsPairsByPositionTimesTheirFrequency) {
  // d_h = 4: pair (0,2) turns by 1 a position, pair (1,3) by 10000^(-2/4) = 0.01.
  const Tensor x = kit::tensor_f64({1, 4}, {1, 2, 3, 4});
  const double a = 3, b = 0.03;
  const Tensor want = kit::tensor_f64({1, 4}, {std::cos(a) - 3 * std::sin(a), 2 * std::cos(b) - 4 * std::sin(b),
                                               3 * std::cos(a) + std::sin(a), 4 * std::cos(b) + 2 * std::sin(b)});
  EXPECT_EQ(kit::close(turned(x, 3, 4), want, 8), "");
  const Tensor slow = kit::tensor_f64({1, 4}, {std::cos(a) - 3 * std::sin(a), 2 * std::cos(0.75) - 4 * std::sin(0.75),
                                               3 * std::cos(a) + std::sin(a), 4 * std::cos(0.75) + 2 * std::sin(0.75)});
  EXPECT_EQ(kit::close(turned(x, 3, 4, "{base: 16}"), slow, 8), "");
}

TEST(Rotary, KeepsNormsAndLeavesPosition0AsItIs) {
  const Tensor x = kit::normal({1, 6}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(turned(x, 0, 6), x), "");
  for (int64_t position : {1, 17, 1000}) {
    const Tensor y = turned(x, position, 6);
    EXPECT_NEAR(dot(y, y), dot(x, x), 16 * 0x1p-53 * dot(x, x));
    EXPECT_NE(kit::bit_difference(y, x), "");
  }
}

TEST(Rotary, ProductsDependOnTheDistanceOnly) {
  for (const char* layout : {"{layout: half}", "{layout: interleaved}"}) {
    const Tensor q = kit::normal({1, 8}, DType::f64, 2), k = kit::normal({1, 8}, DType::f64, 3);
    const double near = dot(turned(q, 5, 8, layout), turned(k, 2, 8, layout));
    for (int64_t shift : {1, 10, 100})
      EXPECT_NEAR(dot(turned(q, 5 + shift, 8, layout), turned(k, 2 + shift, 8, layout)), near, 100 * 0x1p-52 * 16)
          << layout << shift;
    EXPECT_GT(std::abs(dot(turned(q, 6, 8, layout), turned(k, 2, 8, layout)) - near), 1e-3);
  }
}

TEST(Rotary, InterleavedIsHalfWithChannelsInAnotherOrder) {
  const Tensor x = kit::normal({1, 6}, DType::f64, 4);
  // half pairs (c, c+3), interleaved (2c, 2c+1): channel 2c of one is channel c of the other.
  const std::vector<int64_t> to_interleaved{0, 3, 1, 4, 2, 5};
  const Tensor y = turned(kit::columns_of(x, to_interleaved), 7, 6, "{layout: interleaved}");
  EXPECT_EQ(kit::bit_difference(y, kit::columns_of(turned(x, 7, 6), to_interleaved)), "");
}

TEST(Rotary, EveryHeadTurnsAlikeAndRowsByTheirPlaceInTheSequence) {
  kit::Bench bench;
  const auto part = bench.make<Position>("rotary", {.hidden_size = 8, .max_position_embeddings = 4});
  const Tensor x = kit::normal({5, 8}, DType::f64, 5);  // two heads of 4
  const Tensor y = part->turn(Var(x), Sequences({0, 2, 5}, {0, 9}), 4).value();
  const std::vector<int64_t> positions{0, 1, 9, 10, 11};
  for (int64_t n = 0; n < 5; ++n)
    for (int64_t head : {0, 1}) {
      const std::vector<int64_t> channels{4 * head, 4 * head + 1, 4 * head + 2, 4 * head + 3};
      const Tensor row = kit::columns_of(x.slice(n, n + 1), channels);
      EXPECT_EQ(kit::bit_difference(kit::columns_of(y.slice(n, n + 1), channels), turned(row, positions[size_t(n)], 4)),
                "")
          << n << " " << head;
    }
  EXPECT_TRUE(part->turns());
  EXPECT_EQ(bench.parameters().count(), 0);
}

// Through attention: a sequence that starts later gives the same rows, as only distances count.
TEST(Rotary, AttentionDoesNotSeeWhereASequenceStarts) {
  kit::Bench bench;
  const auto rotary =
      bench.make<Position>("rotary", {.hidden_size = 8, .max_position_embeddings = 4}, "{}", "position");
  const auto mixer =
      bench.make<Mixer>("attention", {.hidden_size = 8, .max_position_embeddings = 4, .position = rotary.get()},
                        "{num_attention_heads: 2}");
  kit::randomise(bench.parameters(), 3);
  const Tensor x = kit::normal({4, 8}, DType::f64, 6);
  const auto heads = [&](int64_t start) {
    const Tensor q = kit::product(x, bench["part.heads.q.weight"]), k = kit::product(x, bench["part.heads.k.weight"]),
                 v = kit::product(x, bench["part.heads.v.weight"]);
    const Sequences at({0, 4}, {start});
    return attend(rotary->turn(Var(q), at, 4), rotary->turn(Var(k), at, 4), Var(v), Sequences::single(4),
                  Sequences::single(4), {.heads = 2, .kv_heads = 2, .mask = {.causal = true}})
        .value();
  };
  const Tensor rows = mixer->forward({Var(x), Sequences::single(4), nullptr}).value();
  for (int64_t start : {0, 3, 50})
    EXPECT_EQ(kit::close(rows, kit::product(heads(start), bench["part.output.weight"]), 200 + double(start)), "")
        << start;
}

TEST(Rotary, TurnsTheFirstChannelsOnly) {
  // rotary_dim 2 of 5: pair (0,1) turns by 1 a position, as a head of 2 channels would; the others stay.
  const Tensor x = kit::tensor_f64({1, 5}, {1, 2, 3, 4, 5});
  const Tensor want = kit::tensor_f64({1, 5}, {std::cos(3) - 2 * std::sin(3), 2 * std::cos(3) + std::sin(3), 3, 4, 5});
  EXPECT_EQ(kit::close(turned(x, 3, 5, "{rotary_dim: 2}"), want, 8), "");
}

// Angles at position 1 of pairs (1, 0): cosine and sine in channels c and c + d/2.
std::vector<double> angles(int64_t d, const std::string& options) {
  const Tensor x = zeros({1, d}, DType::f64);
  for (int64_t c = 0; c < d / 2; ++c) set_value(x, c, 1);
  const Tensor y = turned(x, 1, d, options);
  std::vector<double> out;
  for (int64_t c = 0; c < d / 2; ++c) out.push_back(std::atan2(value_at(y, d / 2 + c), value_at(y, c)));
  return out;
}

TEST(Rotary, ScalingsDivideFrequencies) {
  const std::vector<double> plain = angles(8, "{base: 10000}");
  for (size_t c = 0; c < 4; ++c) EXPECT_NEAR(plain[c], std::pow(10, -double(c)), 1e-15);
  const std::vector<double> linear = angles(8, "{scaling: linear, factor: 4}");
  for (size_t c = 0; c < 4; ++c) EXPECT_NEAR(linear[c], plain[c] / 4, 1e-15);
  const std::vector<double> own = angles(8, "{scaling: factors, frequency_factors: [1, 2, 4, 8]}");
  for (size_t c = 0; c < 4; ++c) EXPECT_NEAR(own[c], plain[c] / std::pow(2, double(c)), 1e-15);
  // 100 tokens make 100 / (2 pi) 10^-c turns: 15.9, 1.59, 0.159, 0.0159. Above 4 they stay, below 1 they are divided,
  // and 1.59 is (1.59 - 1) / 3 of the way.
  const std::vector<double> llama3 = angles(8, "{scaling: llama3, factor: 8, original_max_position_embeddings: 100}");
  const double kept = (10 / (2 * M_PI) - 1) / 3;
  EXPECT_NEAR(llama3[0], 1, 1e-15);
  EXPECT_NEAR(llama3[1], 0.1 * (kept + (1 - kept) / 8), 1e-15);
  EXPECT_NEAR(llama3[2], 0.01 / 8, 1e-15);
  EXPECT_NEAR(llama3[3], 0.001 / 8, 1e-15);
}

TEST(Rotary, YarnMakesLogitsLarger) {
  const Tensor x = kit::normal({1, 8}, DType::f64, 1);
  const Tensor y = turned(x, 7, 8, "{scaling: yarn, factor: 4, original_max_position_embeddings: 64}");
  const double gain = 1 + 0.1 * std::log(4);
  EXPECT_NEAR(dot(y, y), gain * gain * dot(x, x), 1e-13 * dot(x, x));
}

TEST(Rotary, WrongScalingsAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"{scaling: llama3, factor: 8}", "needs original_max_position_embeddings"},
      {"{factor: 2}", "does nothing without scaling"},
      {"{scaling: llama3, high_freq_factor: 1, original_max_position_embeddings: 8}", "must be above low_freq_factor"}};
  for (const auto& [options, words] : cases) {
    try {
      turned(kit::normal({1, 8}, DType::f64, 1), 1, 8, options);
      FAIL() << options;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      EXPECT_EQ(error.code(), ExitCode::usage);
    }
  }
}

TEST(Rotary, OddHeadsAreRefusedWhenTheModelIsBuilt) {
  try {
    Model(kit::model_config("{vocab_size: 5, hidden_size: 15, max_position_embeddings: 4, position: rotary, mixer: "
                            "{type: attention, num_attention_heads: 3}}"),
          {});
    FAIL() << "took heads of 5 channels";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rotary: needs an even head_dim, got 5; give another num_attention_heads or head_dim");
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace lithe
