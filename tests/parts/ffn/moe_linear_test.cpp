#include <gtest/gtest.h>

#include "lithe/ops/linear.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t D = 5, kHidden = 6, M = 3;

struct Layer {
  explicit Layer(const std::string& options)
      : part(bench.make<Ffn>("moe_linear", {.hidden_size = D},
                             cat("{num_experts: ", M, ", intermediate_size: ", kHidden, ", ", options, "}"))) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const { return part->forward({Var(x), Sequences::single(x.rows())}).value(); }
  // The second map gives the hidden rows as they are, in the first channels.
  void show_hidden(int64_t width) {
    const Tensor down = bench["part.down.weight"];
    fill_zero(down), fill_zero(bench["part.down.bias"]);
    for (int64_t i = 0; i < std::min(width, D); ++i) set_value(down, i * D + i, 1);
  }
  kit::Bench bench;
  std::unique_ptr<Ffn> part;
};

const Tensor& input() {
  static const Tensor x = kit::normal({7, D}, DType::f64, 1);
  return x;
}

// oracle: moe.split_linear
TEST(SplitLinear, WithEveryBlockAndNoWeightsIsTheWholeMap) {
  Layer split("num_experts_per_tok: 3, weight_by_gate: false");
  kit::Bench bench;
  const auto relu = bench.make<Ffn>("relu", {.hidden_size = D}, cat("{intermediate_size: ", kHidden, "}"));
  kit::randomise(bench.parameters(), 5);
  for (int64_t i = 0; i < D * kHidden; ++i) {
    const int64_t row = i / kHidden, block = i % kHidden / (kHidden / M), column = i % (kHidden / M);
    set_value(bench["part.up.weight"], i,
              value_at(split.bench[cat("part.experts.", block, ".up.weight")], row * (kHidden / M) + column));
  }
  for (const char* name : {"part.up.bias", "part.down.weight", "part.down.bias"})
    copy_into(bench[name], split.bench[name]);
  EXPECT_LE(kit::largest_difference(split(input()), relu->forward({Var(input()), Sequences::single(7)}).value()),
            1e-14);
}

// oracle: moe.split_linear
TEST(SplitLinear, BlocksThatAreNotChosenAreZero) {
  Layer split("num_experts_per_tok: 2, weight_by_gate: false");
  split.show_hidden(kHidden);
  fill_zero(split.bench["part.up.bias"]);
  for (int64_t e = 0; e < M; ++e)  // what is chosen is positive
    for (int64_t i = 0; i < D * 2; ++i) set_value(split.bench[cat("part.experts.", e, ".up.weight")], i, 1);
  Tensor x = clone(input());
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, std::abs(value_at(x, i)));
  const Tensor y = split(x);  // channels 0 to 3 are of blocks 0 and 1, channel 4 is of block 2
  for (int64_t n = 0; n < 7; ++n) {
    int64_t blocks = 0;
    for (const int64_t channel : {0, 2, 4}) blocks += value_at(y, n * D + channel) > 0;
    EXPECT_EQ(blocks, 2) << n;
  }
}

// oracle: moe.split_linear
TEST(SplitLinear, CountsItsParameters) {
  EXPECT_EQ(Layer("bias: false").bench.parameters().count(), D * kHidden + D * M + kHidden * D);
  EXPECT_EQ(Layer("bias: false, merge: sum").bench.parameters().count(), D * kHidden + D * M + kHidden / M * D);
  EXPECT_EQ(Layer("merge: sum").bench.parameters().count(), D * kHidden + D * M + kHidden / M * (D + 1) + D);
}

TEST(SplitLinear, RefusesAWidthThatDoesNotSplit) {
  EXPECT_EQ(kit::coded_error_of([] { kit::Bench().make<Ffn>("moe_linear", {.hidden_size = 5}, "{num_experts: 3}"); }),
            "2 moe_linear: the hidden width 20 does not split into 3 experts; change intermediate_size or num_experts");
}

}  // namespace
}  // namespace lithe
