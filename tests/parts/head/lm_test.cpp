#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Tensor transposed(const Tensor& x) {
  const Tensor out = empty({x.cols(), x.rows()}, x.dtype());
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) set_value(out, c * x.rows() + r, value_at(x, r * x.cols() + c));
  return out;
}

// -log softmax(logits)[label] with smoothing, in plain arithmetic.
double cross_entropy(const Tensor& logits, int64_t row, int label, double smoothing) {
  const int64_t V = logits.cols();
  double total = 0, mean = 0;
  for (int64_t v = 0; v < V; ++v) total += std::exp(value_at(logits, row * V + v));
  for (int64_t v = 0; v < V; ++v) mean += value_at(logits, row * V + v) / double(V);
  return std::log(total) - (1 - smoothing) * value_at(logits, row * V + label) - smoothing * mean;
}

TEST(LmHead, UntiedMultipliesByItsOwnMatrix) {
  kit::Bench bench;
  const auto head = bench.make<Head>("lm", {.vocab_size = 7, .hidden_size = 4});
  EXPECT_EQ(bench.parameters().count(), 28);
  kit::randomise(bench.parameters(), 1);
  const Tensor x = kit::normal({5, 4}, DType::f64, 2);
  EXPECT_EQ(kit::close(head->logits({Var(x), Sequences::single(5)}).value(), kit::product(x, bench["part.weight"]), 8),
            "");
}

TEST(LmHead, TiedMultipliesByTheTransposedTable) {
  kit::Bench bench;
  Parameter* table = bench.scope("table").parameter("weight", {7, 4}, InitRole::embedding);
  const auto head = bench.make<Head>("lm", {.vocab_size = 7, .hidden_size = 4, .tied = table});
  EXPECT_EQ(bench.parameters().count(), 28);  // the table alone
  kit::randomise(bench.parameters(), 1);
  const Tensor x = kit::normal({5, 4}, DType::f64, 2);
  EXPECT_EQ(kit::close(head->logits({Var(x), Sequences::single(5)}).value(),
                       kit::product(x, transposed(table->master.value())), 8),
            "");
}

TEST(LmHead, LossIsTheCrossEntropyOfTheLogits) {
  kit::Bench bench;
  const auto head = bench.make<Head>("lm", {.vocab_size = 7, .hidden_size = 4});
  kit::randomise(bench.parameters(), 1);
  const Tensor x = kit::normal({5, 4}, DType::f64, 2), logits = head->logits({Var(x), Sequences::single(5)}).value();
  const std::vector<int> labels{6, -1, 0, 3, -1};
  const Sequences sequences = Sequences::single(5);
  for (double smoothing : {0.0, 0.3}) {
    double want = 0, nll = 0;
    const Tensor row_nll = empty({5}, DType::f64);
    for (int64_t n : {0, 2, 3})
      want += cross_entropy(logits, n, labels[size_t(n)], smoothing),
          nll += cross_entropy(logits, n, labels[size_t(n)], 0);
    LossSums sums;
    const Var loss = head->loss(
        {Var(x), sequences},
        {.labels = kit::ids_of(labels), .smoothing = smoothing, .scale = 0.25, .sums = &sums, .row_nll = row_nll});
    EXPECT_NEAR(value_at(loss.value(), 0), 0.25 * want, 1e-14);
    EXPECT_NEAR(sums.loss, want, 4e-14);
    EXPECT_NEAR(sums.nll, nll, 4e-14);
    EXPECT_EQ(sums.labels, 3);
    for (int64_t n = 0; n < 5; ++n)
      EXPECT_NEAR(value_at(row_nll, n), labels[size_t(n)] < 0 ? 0 : cross_entropy(logits, n, labels[size_t(n)], 0),
                  1e-14);
  }
}

}  // namespace
}  // namespace lithe
