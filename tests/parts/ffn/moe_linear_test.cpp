#include <gtest/gtest.h>

#include "lithe/ops/linear.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t kMoeLinearWidth = 5, kHidden = 6, kExperts = 3;

struct MoeLinear {
  explicit MoeLinear(const std::string& options)
      : part(bench.make<Ffn>("moe_linear", {.hidden_size = kMoeLinearWidth},
                             cat("{num_experts: ", kExperts, ", intermediate_size: ", kHidden, ", ", options, "}"))) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const { return part->forward({Var(x), Sequences::single(x.rows())}).value(); }
  // The second map gives the hidden rows as they are, in the first channels.
  void show_hidden(int64_t width) {
    const Tensor down = bench["part.down.weight"];
    fill_zero(down), fill_zero(bench["part.down.bias"]);
    for (int64_t i = 0; i < std::min(width, kMoeLinearWidth); ++i) set_value(down, i * kMoeLinearWidth + i, 1);
  }
  kit::Bench bench;
  std::unique_ptr<Ffn> part;
};

const Tensor& moe_linear_rows() {
  static const Tensor x = kit::normal({7, kMoeLinearWidth}, DType::f64, 1);
  return x;
}

// oracle: moe.split_linear
TEST(SplitLinear, WithEveryBlockAndNoWeightsIsTheWholeMap) {
  MoeLinear split("num_experts_per_tok: 3, weight_by_gate: false");
  kit::Bench bench;
  const auto relu =
      bench.make<Ffn>("relu", {.hidden_size = kMoeLinearWidth}, cat("{intermediate_size: ", kHidden, "}"));
  kit::randomise(bench.parameters(), 5);
  for (int64_t i = 0; i < kMoeLinearWidth * kHidden; ++i) {
    const int64_t row = i / kHidden, block = i % kHidden / (kHidden / kExperts), column = i % (kHidden / kExperts);
    set_value(bench["part.up.weight"], i,
              value_at(split.bench[cat("part.experts.", block, ".up.weight")], row * (kHidden / kExperts) + column));
  }
  for (const char* name : {"part.up.bias", "part.down.weight", "part.down.bias"})
    copy_into(bench[name], split.bench[name]);
  EXPECT_LE(kit::largest_difference(split(moe_linear_rows()),
                                    relu->forward({Var(moe_linear_rows()), Sequences::single(7)}).value()),
            1e-14);
}

// oracle: moe.split_linear
TEST(SplitLinear, BlocksThatAreNotChosenAreZero) {
  MoeLinear split("num_experts_per_tok: 2, weight_by_gate: false");
  split.show_hidden(kHidden);
  fill_zero(split.bench["part.up.bias"]);
  for (int64_t e = 0; e < kExperts; ++e)  // what is chosen is positive
    for (int64_t i = 0; i < kMoeLinearWidth * 2; ++i)
      set_value(split.bench[cat("part.experts.", e, ".up.weight")], i, 1);
  Tensor x = clone(moe_linear_rows());
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, std::abs(value_at(x, i)));
  const Tensor y = split(x);  // channels 0 to 3 are of blocks 0 and 1, channel 4 is of block 2
  for (int64_t n = 0; n < 7; ++n) {
    int64_t blocks = 0;
    for (const int64_t channel : {0, 2, 4}) blocks += value_at(y, n * kMoeLinearWidth + channel) > 0;
    EXPECT_EQ(blocks, 2) << n;
  }
}

// oracle: moe.split_linear
TEST(SplitLinear, CountsItsParameters) {
  EXPECT_EQ(MoeLinear("bias: false").bench.parameters().count(),
            kMoeLinearWidth * kHidden + kMoeLinearWidth * kExperts + kHidden * kMoeLinearWidth);
  EXPECT_EQ(MoeLinear("bias: false, merge: sum").bench.parameters().count(),
            kMoeLinearWidth * kHidden + kMoeLinearWidth * kExperts + kHidden / kExperts * kMoeLinearWidth);
  EXPECT_EQ(MoeLinear("merge: sum").bench.parameters().count(), kMoeLinearWidth * kHidden + kMoeLinearWidth * kExperts +
                                                                    kHidden / kExperts * (kMoeLinearWidth + 1) +
                                                                    kMoeLinearWidth);
}

TEST(SplitLinear, RefusesAWidthThatDoesNotSplit) {
  EXPECT_EQ(kit::coded_error_of([] { kit::Bench().make<Ffn>("moe_linear", {.hidden_size = 5}, "{num_experts: 3}"); }),
            "2 moe_linear: the hidden width 20 does not split into 3 experts; change intermediate_size or num_experts");
}

}  // namespace
}  // namespace lithe
