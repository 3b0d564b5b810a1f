#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/ctc.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::unique_ptr<Head> ctc(kit::Bench& bench, int64_t d, int64_t classes, const char* options = "{}") {
  return bench.make<Head>("ctc", {.hidden_size = d, .num_labels = classes}, options);
}

TEST(CtcHead, CountsItsParametersAndAtMostALabelARow) {
  kit::Bench bench(DType::f32, DType::f32, Device::meta);
  const auto head = ctc(bench, 768, 31);
  EXPECT_EQ(bench.parameters().count(), 768 * 32 + 32);  // d (V + 1) + V + 1
  const Head::LabelCount count = head->count(Sequences({0, 4, 9}));
  EXPECT_EQ(count.labels, 9);
  EXPECT_EQ(count.classes, 31);
  EXPECT_TRUE(count.own_lengths);
}

// Logits are the biases where the rows are zero: -log .88 of one label in two rows (oracle: app.ctc).
TEST(CtcHead, LossIsThatOfAllAlignmentsAndCountsLabels) {
  kit::Bench bench;
  const auto head = ctc(bench, 2, 1);
  for (int64_t i = 0; i < 4; ++i)
    set_value(bench["part.out.weight"], i, i == 0 ? std::log(0.6 / 0.4) : i == 2 ? std::log(0.7 / 0.3) : 0);
  const Tensor x = zeros({4, 2}, DType::f64);  // two sequences of two rows: one picks the first weight, one the second
  for (const int64_t at : {0, 4}) set_value(x, at, 1);
  for (const int64_t at : {3, 7}) set_value(x, at, 1);
  LossSums sums;
  const Tensor nll = empty({2}, DType::f64);
  const Var loss = head->loss({Var(x), Sequences({0, 2, 4})}, {.labels = kit::ids_of({0}),
                                                               .scale = 0.5,
                                                               .sums = &sums,
                                                               .row_nll = nll,
                                                               .label_sequences = Sequences({0, 1, 1})});
  EXPECT_NEAR(value_at(nll, 0), -std::log(0.88), 1e-14);
  EXPECT_NEAR(value_at(nll, 1), -std::log(0.4 * 0.3), 1e-14);
  EXPECT_EQ(sums.labels, 1);
  EXPECT_NEAR(value_at(loss.value(), 0), 0.5 * (value_at(nll, 0) + value_at(nll, 1)), 1e-14);
}

TEST(CtcHead, TooFewRowsAreAnErrorOrCountNothing) {
  for (const bool left_out : {false, true}) {
    kit::Bench bench;
    const auto head = ctc(bench, 2, 2, left_out ? "{zero_infinity: true}" : "{}");
    const Tensor x = zeros({4, 2}, DType::f64), labels = kit::ids_of({1, 1, 0});
    LossSums sums;
    const LossArgs args{.labels = labels, .sums = &sums, .label_sequences = Sequences({0, 2, 3})};
    if (!left_out) {
      EXPECT_THROW(head->loss({Var(x), Sequences({0, 2, 4})}, args), Error);
      continue;
    }
    head->loss({Var(x), Sequences({0, 2, 4})}, args);
    EXPECT_EQ(sums.labels, 3);  // of the gradient's divisor: what is left out has a loss of zero
    EXPECT_TRUE(std::isfinite(sums.loss));
  }
}

TEST(CtcHead, SmoothingIsRefused) {
  kit::Bench bench;
  const auto head = ctc(bench, 2, 2);
  EXPECT_THROW(head->loss({Var(zeros({2, 2}, DType::f64)), Sequences({0, 2})},
                          {.labels = kit::ids_of({1}), .smoothing = 0.1, .label_sequences = Sequences({0, 1})}),
               Error);
}

// oracle: app.ctc
TEST(CtcHead, BestPathDropsRepetitionsThenBlanks) {
  const Tensor logits = zeros({6, 3}, DType::f32);
  const int64_t path[] = {0, 0, 2, 0, 1, 2};
  for (int64_t t = 0; t < 6; ++t) set_value(logits, 3 * t + path[t], 1);
  EXPECT_EQ(ctc_best_path(logits, 0, 4), (std::vector<int32_t>{0, 0}));  // a, a, _, a -> aa
  EXPECT_EQ(ctc_best_path(logits, 0, 6), (std::vector<int32_t>{0, 0, 1}));
  EXPECT_EQ(ctc_best_path(logits, 2, 3), (std::vector<int32_t>{}));
}

}  // namespace
}  // namespace lithe
