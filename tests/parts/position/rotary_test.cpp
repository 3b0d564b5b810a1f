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
