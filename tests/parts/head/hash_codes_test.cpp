#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/candidate_scores.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Coded {
  Coded()
      : head(bench.make<Head>("hash_codes", {.vocab_size = 9, .hidden_size = 4},
                              "{num_tables: 3, num_codes: 5, seed: 2}")) {
    kit::randomise(bench.parameters(), 1);
  }
  kit::Bench bench;
  std::unique_ptr<Head> head;
  Tensor x = kit::normal({5, 4}, DType::f64, 2), codes = hashed_codes(9, 3, 5, 2, Device::cpu);
  std::vector<int> labels{6, -1, 0, 3, 8};
  Sequences sequences = Sequences::single(5);

  // The log-probability of a code, by the softmax of its table.
  double log_probability(int64_t row, int64_t table, int64_t code) {
    const auto logit = [&](int64_t c) {
      double sum = value_at(bench["part.bias"], table * 5 + c);
      for (int64_t i = 0; i < 4; ++i)
        sum += value_at(x, row * 4 + i) * value_at(bench["part.weight"], i * 15 + table * 5 + c);
      return sum;
    };
    double total = 0;
    for (int64_t c = 0; c < 5; ++c) total += std::exp(logit(c));
    return logit(code) - std::log(total);
  }
  double log_product(int64_t row, int64_t word) {
    double sum = 0;
    for (int64_t k = 0; k < 3; ++k) sum += log_probability(row, k, codes.data<int32_t>()[word * 3 + k]);
    return sum;
  }
};

TEST(HashCodesHead, CandidatesHaveTheProductsOfTheirCodes) {
  Coded coded;
  EXPECT_EQ(coded.bench.parameters().count(), 4 * 15 + 15);
  const Tensor logits = coded.head->logits({Var(coded.x), coded.sequences}).value();
  ASSERT_EQ(logits.shape(), (Shape{5, 9}));
  for (int64_t n = 0; n < 5; ++n) {
    double sum = 0, mass = 0;
    for (int64_t w = 0; w < 9; ++w)
      sum += std::exp(value_at(logits, n * 9 + w)), mass += std::exp(coded.log_product(n, w));
    EXPECT_LE(mass, 1);  // the rest is of codes that no candidate has
    for (int64_t w = 0; w < 9; ++w)
      EXPECT_NEAR(value_at(logits, n * 9 + w) - std::log(sum), coded.log_product(n, w) - std::log(mass), 1e-12);
  }
}

TEST(HashCodesHead, TheLossIsOfTheCodesAndEvaluationOfTheCandidates) {
  Coded coded;
  double codes = 0, candidates = 0;
  for (const int64_t n : {0, 2, 3, 4}) {
    double mass = 0;
    for (int64_t w = 0; w < 9; ++w) mass += std::exp(coded.log_product(n, w));
    codes -= coded.log_product(n, coded.labels[size_t(n)]);
    candidates -= coded.log_product(n, coded.labels[size_t(n)]) - std::log(mass);
  }
  const auto run = [&](LossSums& sums, const Tensor& row_nll) {
    return coded.head->loss({Var(coded.x), coded.sequences},
                            {.labels = kit::ids_of(coded.labels), .scale = 0.5, .sums = &sums, .row_nll = row_nll});
  };
  LossSums sums;
  const Tensor nll = zeros({5}, DType::f64);
  EXPECT_NEAR(value_at(run(sums, nll).value(), 0), codes / 2, 1e-12);
  EXPECT_EQ(sums.labels, 4);
  EXPECT_NEAR(sums.loss, codes, 1e-12);
  EXPECT_NEAR(sums.nll, candidates, 1e-12);
  double rows = 0;
  for (const int64_t n : {0, 2, 3, 4}) rows += value_at(nll, n);
  EXPECT_NEAR(rows, candidates, 1e-12);
  const Tape tape;
  EXPECT_NEAR(value_at(run(sums, {}).value(), 0), codes / 2, 1e-12);
  EXPECT_NEAR(sums.nll, codes, 1e-12);
}

TEST(HashCodesHead, LearnsTheLabelAmongTheCandidatesWhereItIsTold) {
  Coded coded;
  const auto whole = coded.bench.make<Head>("hash_codes", {.vocab_size = 9, .hidden_size = 4},
                                            "{num_tables: 3, num_codes: 5, seed: 2, loss: candidates}", "whole");
  copy_into(coded.bench["whole.weight"], coded.bench["part.weight"]);
  copy_into(coded.bench["whole.bias"], coded.bench["part.bias"]);
  double want = 0;
  for (const int64_t n : {0, 2, 3, 4}) {
    double mass = 0;
    for (int64_t w = 0; w < 9; ++w) mass += std::exp(coded.log_product(n, w));
    want -= coded.log_product(n, coded.labels[size_t(n)]) - std::log(mass);
  }
  LossSums sums;
  const Tape tape;
  const Var loss =
      whole->loss({Var(coded.x), coded.sequences}, {.labels = kit::ids_of(coded.labels), .scale = 0.5, .sums = &sums});
  EXPECT_NEAR(value_at(loss.value(), 0), want / 2, 1e-12);
  EXPECT_NEAR(sums.nll, want, 1e-12);
}

TEST(HashCodesHead, RefusesTiesAndTooFewCodes) {
  kit::Bench bench;
  Parameter* table = bench.scope("table").parameter("weight", {9, 4}, InitRole::embedding);
  EXPECT_NE(kit::error_of([&] {
              bench.make<Head>("hash_codes", {.vocab_size = 9, .hidden_size = 4, .tied = table});
            }).find("tie_word_embeddings: false"),
            std::string::npos);
  EXPECT_NE(kit::error_of([&] {
              bench.make<Head>("hash_codes", {.vocab_size = 9, .hidden_size = 4}, "{num_tables: 2, num_codes: 2}", "b");
            }).find("raise num_tables or num_codes"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
