#include "lithe/ops/loss.h"

#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

double loss_of(const Tensor& logits, const Tensor& labels, double smoothing = 0) {
  return value_at(cross_entropy(Var(logits), labels, smoothing, 1).value(), 0);
}

// oracle: train.nll
TEST(CrossEntropy, UniformLogitsCostTheLogarithmOfTheVocabulary) {
  for (int64_t V : {2, 7, 1000})
    for (double smoothing : {0.0, 0.1}) {
      Tensor logits = zeros({2, V}, DType::f64);
      EXPECT_NEAR(loss_of(logits, kit::ids_of({0, int(V) - 1}), smoothing), 2 * std::log(double(V)),
                  1e-14 * std::log(double(V)) * 4);
    }
}

TEST(CrossEntropy, GradientIsProbabilityMinusTargetOverTheCount) {
  const Tensor logits = random({3, 5}, 1), labels = kit::ids_of({4, -1, 2});
  for (double smoothing : {0.0, 0.25}) {
    const auto got = kit::differentiate([&](const Vars& in) { return cross_entropy(in[0], labels, smoothing, 0.5); },
                                        {logits}, kit::tensor_f64({1}, {1}))
                         .gradients[0];
    for (int64_t n = 0; n < 3; ++n) {
      double total = 0;
      for (int64_t v = 0; v < 5; ++v) total += std::exp(value_at(logits, n * 5 + v));
      for (int64_t v = 0; v < 5; ++v) {
        const double p = std::exp(value_at(logits, n * 5 + v)) / total,
                     q = (1 - smoothing) * (v == (n == 0 ? 4 : 2)) + smoothing / 5;
        EXPECT_NEAR(value_at(got, n * 5 + v), n == 1 ? 0 : 0.5 * (p - q), 4 * 0x1p-53) << n << " " << v;
      }
    }
    kit::expect_gradients([&](const Vars& in) { return cross_entropy(in[0], labels, smoothing, 0.5); }, {logits});
  }
}

TEST(CrossEntropy, RowsWithoutLabelCostNothing) {
  const Tensor logits = random({3, 5}, 1);
  LossSums sums;
  const Var loss = cross_entropy(Var(logits), kit::ids_of({-1, 3, -1}), 0, 1, &sums);
  EXPECT_EQ(sums.labels, 1);
  EXPECT_EQ(value_at(loss.value(), 0), loss_of(clone(logits.slice(1, 2)), kit::ids_of({3})));
  EXPECT_EQ(loss_of(logits, kit::ids_of({-1, -1, -1})), 0);
}

TEST(CrossEntropy, ConstantsAddedToARowChangeNothing) {
  const Tensor logits = random({2, 5}, 1), labels = kit::ids_of({1, 2});
  Tensor shifted = clone(logits);
  for (int64_t i = 0; i < 5; ++i) set_value(shifted, i, value_at(logits, i) + 64);
  EXPECT_NEAR(loss_of(shifted, labels), loss_of(logits, labels), 64 * 0x1p-52);
}

// oracle: train.stability
TEST(CrossEntropy, LargeLogitsStayFinite) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensor logits = convert(kit::tensor_f64({2, 3}, {1000, 1000, -1000, 1000, 1000, -1000}), dtype);
    LossSums sums;
    const auto out = kit::differentiate(
        [&](const Vars& in) {
          return cross_entropy(in[0], kit::ids_of({0, 2}), 0, 1, &sums);
        },
        {logits}, convert(kit::tensor_f64({1}, {1}), dtype == DType::f64 ? DType::f64 : DType::f32));
    EXPECT_NEAR(sums.loss, std::log(2.0) + 2000 + std::log(2.0), 2000 * 0x1p-23) << dtype;
    EXPECT_EQ(kit::values(out.gradients[0]), (std::vector<double>{-0.5, 0.5, 0, 0.5, 0.5, -1})) << dtype;
  }
}

TEST(CrossEntropy, SmoothingIsReportedBesideThePlainLikelihood) {
  const Tensor logits = random({4, 6}, 1), labels = kit::ids_of({0, 5, -1, 2});
  LossSums smooth, plain;
  cross_entropy(Var(logits), labels, 0.2, 1, &smooth);
  cross_entropy(Var(logits), labels, 0, 1, &plain);
  EXPECT_EQ(smooth.nll, plain.loss);
  EXPECT_EQ(plain.nll, plain.loss);
  EXPECT_NE(smooth.loss, smooth.nll);
}

TEST(LinearCrossEntropy, IsTheComposition) {
  for (bool transposed : {false, true})
    for (double smoothing : {0.0, 0.1}) {
      const Tensor x = random({7, 4}, 1), w = random(transposed ? Shape{9, 4} : Shape{4, 9}, 2),
                   labels = kit::ids_of({0, 8, -1, 3, 3, -5, 7});
      kit::expect_same(
          [&](const Vars& in) { return linear_cross_entropy(in[0], in[1], transposed, labels, smoothing, 0.3); },
          [&](const Vars& in) { return cross_entropy(linear(in[0], in[1], {}, transposed), labels, smoothing, 0.3); },
          {x, w}, 32, cat(transposed, smoothing));
    }
}

TEST(LinearCrossEntropy, ReadsAHeadWithALowRankAdapter) {
  const std::vector<Tensor> inputs{random({7, 4}, 1), random({4, 9}, 2), random({4, 2}, 3), random({2, 9}, 4)};
  const Tensor labels = kit::ids_of({0, 8, -1, 3, 3, -5, 7});
  kit::expect_same(
      [&](const Vars& in) {
        const Var w = in[1].with_low_rank(std::make_shared<const LowRank>(LowRank{in[2], in[3], 0.7}));
        return linear_cross_entropy(in[0], w, false, labels, 0.1, 0.3);
      },
      [&](const Vars& in) {
        const Var w = add(in[1], linear(in[2], in[3]), 1, 0.7);
        return linear_cross_entropy(in[0], w, false, labels, 0.1, 0.3);
      },
      inputs, 64);
}

// More rows than one chunk of logits holds (256 at this vocabulary).
TEST(LinearCrossEntropy, ChunksGiveTheComposition) {
  const int64_t N = 600, V = 8192;
  const Tensor x = random({N, 3}, 1), w = random({3, V}, 2), labels = kit::random_ids(N, V, 3);
  kit::expect_same([&](const Vars& in) { return linear_cross_entropy(in[0], in[1], false, labels, 0.1, 1.0 / N); },
                   [&](const Vars& in) { return cross_entropy(linear(in[0], in[1]), labels, 0.1, 1.0 / N); }, {x, w},
                   4 * std::sqrt(double(N * 8)), "chunks");
  Ledger& book = ledger(Device::cpu);
  const int64_t before = book.current();
  book.reset_peak();
  linear_cross_entropy(Var(x), Var(w), false, labels, 0, 1);
  EXPECT_LT(book.peak() - before, N * V * 8);  // never all logits at once
}

TEST(LinearCrossEntropy, ReportsSumsAndRows) {
  const Tensor x = random({3, 4}, 1), w = random({4, 9}, 2), labels = kit::ids_of({5, -1, 0});
  LossSums sums, want;
  const Tensor rows = empty({3}, DType::f64);
  linear_cross_entropy(Var(x), Var(w), false, labels, 0.1, 7, &sums, rows);
  cross_entropy(linear(Var(x), Var(w)), labels, 0.1, 1, &want);
  EXPECT_NEAR(sums.loss, want.loss, 1e-14);
  EXPECT_NEAR(sums.nll, want.nll, 1e-14);
  EXPECT_EQ(sums.labels, 2);
  EXPECT_NEAR(value_at(rows, 0) + value_at(rows, 2), want.nll, 1e-14);
  EXPECT_EQ(value_at(rows, 1), 0);
}

TEST(LinearCrossEntropy, MustBeDifferentiatedWithOne) {
  const Var x = Var::leaf(random({3, 4}, 1)), w = Var::leaf(random({4, 9}, 2));
  Tape tape;
  const Var loss = linear_cross_entropy(x, w, false, kit::ids_of({1, 2, 3}), 0, 1);
  EXPECT_EQ(kit::error_of([&] { tape.backward(loss, kit::tensor_f64({1}, {2})); }),
            "linear_cross_entropy: its gradient was taken in the forward pass for dy = 1; put factors into scale");
}

// The bias is added to every row's logits, and its gradient gathers over chunks of rows.
TEST(LinearCrossEntropy, WithABiasIsTheComposition) {
  for (bool transposed : {false, true})
    for (double smoothing : {0.0, 0.1}) {
      const Tensor x = random({7, 4}, 1), w = random(transposed ? Shape{9, 4} : Shape{4, 9}, 2), b = random({9}, 3),
                   labels = kit::ids_of({0, 8, -1, 3, 3, -5, 7});
      const auto fused = [&](const Vars& in) {
        return linear_cross_entropy(in[0], in[1], transposed, labels, smoothing, 0.3, nullptr, {}, in[2]);
      };
      kit::expect_same(
          fused,
          [&](const Vars& in) {
            return cross_entropy(linear(in[0], in[1], in[2], transposed), labels, smoothing, 0.3);
          },
          {x, w, b}, 32, cat(transposed, smoothing));
    }
  const int64_t N = 600, V = 8192;  // three chunks
  const Tensor labels = kit::random_ids(N, V, 3);
  kit::expect_same(
      [&](const Vars& in) {
        return linear_cross_entropy(in[0], in[1], false, labels, 0.1, 1.0 / N, nullptr, {}, in[2]);
      },
      [&](const Vars& in) { return cross_entropy(linear(in[0], in[1], in[2]), labels, 0.1, 1.0 / N); },
      {random({N, 3}, 1), random({3, V}, 2), random({V}, 4)}, 4 * std::sqrt(double(N * 8)), "chunks");
}

TEST(LinearCrossEntropy, OnlyTheBiasMayBeTrained) {
  const Tensor x = random({3, 4}, 1), w = random({4, 5}, 2), labels = kit::ids_of({4, 0, -1});
  kit::expect_same(
      [&](const Vars& in) { return linear_cross_entropy(Var(x), Var(w), false, labels, 0, 1, nullptr, {}, in[0]); },
      [&](const Vars& in) { return cross_entropy(linear(Var(x), Var(w), in[0]), labels, 0, 1); }, {random({5}, 3)}, 32);
}

TEST(LinearCrossEntropy, ABiasOfAnotherLengthIsRefused) {
  EXPECT_EQ(kit::error_of([&] {
              linear_cross_entropy(Var(random({2, 3}, 1)), Var(random({3, 5}, 2)), false, kit::ids_of({0, 1}), 0, 1,
                                   nullptr, {}, Var(random({4}, 3)));
            }),
            "linear_cross_entropy: bias must be [5] to match the weight [3,5]");
}

TEST(CrossEntropy, ReportsEachRowsLikelihood) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor logits = random({4, 6}, 1, dtype), labels = kit::ids_of({0, 5, -1, 2}), rows = empty({4}, dtype);
    LossSums sums;
    cross_entropy(Var(logits), labels, 0.2, 3, &sums, rows);  // without smoothing and scale
    double total = 0;
    for (int64_t n = 0; n < 4; ++n) {
      const int32_t label = labels.data<int32_t>()[n];
      const double want =
          label < 0 ? 0 : loss_of(convert(clone(logits.slice(n, n + 1)), DType::f64), kit::ids_of({label}));
      EXPECT_NEAR(value_at(rows, n), want, 16 * epsilon_of(dtype)) << n;
      total += value_at(rows, n);
    }
    EXPECT_EQ(sums.nll, total);
  }
}

TEST(SquaredError, IsTheSumOfSquares) {
  const Tensor predictions = kit::tensor_f64({3, 1}, {1, -2, 0.5}), targets = empty({3}, DType::f32);
  kit::assign(targets, std::vector<double>{1, 1, -0.5});
  LossSums sums;
  const auto out = kit::differentiate([&](const Vars& in) { return squared_error(in[0], targets, 0.25, &sums); },
                                      {predictions}, kit::tensor_f64({1}, {1}));
  EXPECT_EQ(kit::values(out.y), std::vector<double>{0.25 * 10});
  EXPECT_EQ(sums.loss, 10);
  EXPECT_EQ(sums.nll, 10);
  EXPECT_EQ(sums.labels, 3);
  EXPECT_EQ(kit::values(out.gradients[0]), (std::vector<double>{0, -1.5, 0.5}));
  EXPECT_EQ(out.gradients[0].shape(), (Shape{3, 1}));
}

TEST(SquaredError, GradientsAgreeWithDifferencesAndAccumulate) {
  const Tensor targets = random({5}, 2, DType::f32);
  kit::expect_gradients([&](const Vars& in) { return squared_error(in[0], targets, 0.3); }, {random({5}, 1)});
  kit::expect_gradients(
      [&](const Vars& in) { return add(squared_error(in[0], targets, 1), squared_error(in[0], targets, 2), 3, 1); },
      {random({5, 1}, 1)});
}

// Differences are rounded to the rows' dtype once, as gradients; the loss is in double.
TEST(SquaredError, InF32AndBf16) {
  const Tensor targets = random({40}, 2, DType::f32);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = random({40, 1}, 1, dtype);
    const auto f = [&](const Vars& in) { return squared_error(in[0], targets, 0.1); };
    const auto got = kit::differentiate(f, {x}, convert(kit::tensor_f64({1}, {1}), DType::f32)),
               want = kit::differentiate(f, {convert(x, DType::f64)}, kit::tensor_f64({1}, {1}));
    EXPECT_EQ(got.y.dtype(), DType::f32) << dtype;
    EXPECT_EQ(kit::close(got.y, want.y, 1), "") << dtype;
    EXPECT_EQ(kit::close(got.gradients[0], want.gradients[0], 2), "") << dtype;
  }
}

TEST(SquaredError, ErrorsNameTheTargets) {
  EXPECT_EQ(kit::error_of([&] {
              squared_error(Var(random({2, 1}, 1)), random({3}, 1, DType::f32), 1);
            }),
            "squared_error: targets must be f32 [2], got f32[3]");
  EXPECT_EQ(kit::error_of([&] {
              squared_error(Var(random({2, 1}, 1)), kit::ids_of({0, 1}), 1);
            }),
            "squared_error: targets must be f32 [2], got i32[2]");
}

TEST(CrossEntropy, ErrorsNameLabelsAndShapes) {
  const Var logits(random({2, 3}, 1));
  EXPECT_EQ(kit::error_of([&] {
              cross_entropy(logits, kit::ids_of({0, 3}), 0, 1);
            }),
            "cross_entropy: label 3 at row 1 is not below 3");
  EXPECT_EQ(kit::error_of([&] { cross_entropy(logits, kit::ids_of({0}), 0, 1); }),
            "cross_entropy: labels must be i32 [2], got i32[1]");
  EXPECT_EQ(kit::error_of([&] {
              linear_cross_entropy(logits, Var(random({4, 5}, 2)), false, kit::ids_of({0, 1}), 0, 1);
            }),
            "linear_cross_entropy: x [2,3] does not fit the weight [4,5]");
}

}  // namespace
}  // namespace lithe
