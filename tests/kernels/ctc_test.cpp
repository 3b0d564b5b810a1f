#include "lithe/kernels/ctc/ctc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"
#include "tests/support/numbers.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

/// -log P of one sequence.
double loss_of(const Tensor& logits, const std::vector<int32_t>& labels, const Tensor& gradient = {}) {
  const std::vector<int64_t> offsets{0, logits.rows()}, label_offsets{0, int64_t(labels.size())};
  const Tensor losses = empty({1}, wide(logits.dtype())), work = clone(logits);
  ctc({work, kit::ids_of(labels), losses, offsets, label_offsets, 1, gradient.defined()});
  for (int64_t i = 0; gradient.defined() && i < work.numel(); ++i) set_value(gradient, i, value_at(work, i));
  return value_at(losses, 0);
}

Tensor logits_of(std::initializer_list<double> probabilities, int64_t classes) {
  const Tensor out = empty({int64_t(probabilities.size()) / classes, classes}, DType::f64);
  int64_t i = 0;
  for (const double p : probabilities) set_value(out, i++, std::log(p));
  return out;
}

// oracle: app.ctc
TEST(Ctc, TwoRowsWriteOneLabelInThreeWays) {
  const Tensor logits = logits_of({0.6, 0.4, 0.7, 0.3}, 2);  // a, blank
  EXPECT_NEAR(loss_of(logits, {0}), -std::log(0.88), 1e-15);
  EXPECT_NEAR(loss_of(logits, {0}), 0.127833, 5e-7);
  EXPECT_NEAR(loss_of(logits, {}), -std::log(0.4 * 0.3), 1e-15);
}

// oracle: app.ctc
TEST(Ctc, EqualLabelsNeedABlankBetween) {
  const Tensor gradient = random_tensor({2, 2}, DType::f64, 1);
  EXPECT_TRUE(std::isinf(loss_of(logits_of({0.6, 0.4, 0.7, 0.3}, 2), {0, 0}, gradient)));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(value_at(gradient, i), 0);
  EXPECT_NEAR(loss_of(logits_of({0.6, 0.4, 0.7, 0.3, 0.5, 0.5}, 2), {0, 0}), -std::log(0.6 * 0.3 * 0.5), 1e-15);
  const std::vector<int32_t> labels{0, 0, 1, 1, 1};
  EXPECT_EQ(ctc_rows(labels.data(), 5), 8);
}

// All paths of T rows by what they collapse to.
std::map<std::vector<int32_t>, double> by_enumeration(const Tensor& logits) {
  const int64_t T = logits.rows(), C = logits.cols();
  std::map<std::vector<int32_t>, double> out;
  int64_t paths = 1;
  for (int64_t t = 0; t < T; ++t) paths *= C;
  for (int64_t path = 0; path < paths; ++path) {
    std::vector<int32_t> labels;
    double p = 1;
    int64_t rest = path, last = C - 1;
    for (int64_t t = 0; t < T; ++t, rest /= C) {
      const int64_t c = rest % C;
      double sum = 0;
      for (int64_t k = 0; k < C; ++k) sum += std::exp(value_at(logits, t * C + k));
      p *= std::exp(value_at(logits, t * C + c)) / sum;
      if (c != last && c != C - 1) labels.push_back(int32_t(c));
      last = c;
    }
    out[labels] += p;
  }
  return out;
}

// oracle: app.ctc
TEST(Ctc, AgreesWithTheSumOverAllPathsAndTheStringsSumToOne) {
  const Tensor logits = random_tensor({4, 3}, DType::f64, 3, 2);
  double sum = 0;
  for (const auto& [labels, p] : by_enumeration(logits)) {
    EXPECT_NEAR(std::exp(-loss_of(logits, labels)), p, 1e-14);
    sum += p;
  }
  EXPECT_NEAR(sum, 1, 1e-14);
}

// oracle: app.ctc
TEST(Ctc, GradientIsThatOfFiniteDifferencesAndSumsToZeroInEveryRow) {
  for (const auto& labels : std::vector<std::vector<int32_t>>{{}, {1}, {0, 0}, {2, 1, 2}, {0, 1, 2, 0}}) {
    const Tensor logits = random_tensor({6, 4}, DType::f64, 5, 2), gradient = empty({6, 4}, DType::f64);
    loss_of(logits, labels, gradient);
    expect_gradient(
        gradient, logits, [&] { return loss_of(logits, labels); }, "ctc");
    for (int64_t t = 0; t < 6; ++t) {
      double sum = 0;
      for (int64_t c = 0; c < 4; ++c) sum += value_at(gradient, 4 * t + c);
      EXPECT_NEAR(sum, 0, 1e-14);
    }
  }
}

TEST(Ctc, SequencesAreIndependentInEveryTypeAndNumberOfThreads) {
  const std::vector<int64_t> offsets{0, 5, 5, 6, 40}, label_offsets{0, 2, 2, 3, 13};
  const Tensor labels = random_ints({13}, 0, 6, 2);
  for (const DType type : kTypes) {
    const Tensor logits = random_tensor({40, 7}, type, 1, 3);
    std::vector<double> first;
    for (const int threads : {1, 2, 3}) {
      const WithThreads with(threads);
      const Tensor losses = empty({4}, wide(type)), work = clone(logits);
      ctc({work, labels, losses, offsets, label_offsets, 0.5, true});
      std::vector<double> all;
      for (int64_t i = 0; i < 4; ++i) all.push_back(value_at(losses, i));
      for (int64_t i = 0; i < work.numel(); ++i) all.push_back(value_at(work, i));
      if (first.empty()) first = all;
      EXPECT_EQ(all, first);
    }
    EXPECT_EQ(first[1], 0);  // neither rows nor labels: certain
    for (size_t b = 0; b < 4; ++b) {
      const std::vector<int64_t> own{0, offsets[b + 1] - offsets[b]},
          own_labels{0, label_offsets[b + 1] - label_offsets[b]};
      const Tensor rows = clone(logits.slice(offsets[b], offsets[b + 1])), loss = empty({1}, wide(type));
      ctc({rows, labels.slice(label_offsets[b], label_offsets[b + 1]), loss, own, own_labels, 0.5, true});
      EXPECT_EQ(value_at(loss, 0), first[b]);
      for (int64_t i = 0; i < rows.numel(); ++i) EXPECT_EQ(value_at(rows, i), first[4 + size_t(offsets[b] * 7 + i)]);
    }
  }
}

// A label that the model thinks impossible but for e^-60 on each of 500 rows: probabilities would underflow.
TEST(Ctc, LongImprobableSequencesStayFinite) {
  const Tensor logits = zeros({500, 3}, DType::f32);
  for (int64_t t = 0; t < 500; ++t) set_value(logits, 3 * t + 2, 60);
  std::vector<int32_t> labels;
  for (int i = 0; i < 200; ++i) labels.push_back(i % 2);
  const Tensor gradient = empty({500, 3}, DType::f32);
  const double loss = loss_of(logits, labels, gradient);
  EXPECT_GT(loss, 200 * 60 * 0.9);
  EXPECT_LT(loss, 200 * 60);
  for (int64_t i = 0; i < gradient.numel(); ++i) EXPECT_TRUE(std::isfinite(value_at(gradient, i)));
}

TEST(Ctc, RefusesWhatDoesNotFit) {
  const Tensor logits = zeros({3, 2}, DType::f32), losses = empty({1}, DType::f32);
  const std::vector<int64_t> three{0, 3}, two{0, 2}, one{0, 1}, none{0, 0};
  EXPECT_THROW(ctc({logits, kit::ids_of({0}), losses, two, one}), Error);     // rows
  EXPECT_THROW(ctc({logits, kit::ids_of({0}), losses, three, two}), Error);   // labels
  EXPECT_THROW(ctc({logits, kit::ids_of({1}), losses, three, one}), Error);   // the blank
  EXPECT_THROW(ctc({logits, kit::ids_of({-1}), losses, three, one}), Error);  // no label
  EXPECT_THROW(ctc({zeros({3, 1}, DType::f32), kit::ids_of({}), losses, three, none}), Error);
}

}  // namespace
}  // namespace lithe::kernels
