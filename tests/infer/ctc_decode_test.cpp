#include "lithe/infer/ctc_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lithe/ops/ctc.h"
#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace lithe {
namespace {

// Logits whose softmax is these probabilities, two classes and the blank.
Tensor logits_of(const std::vector<std::vector<double>>& rows) {
  const Tensor out = empty({int64_t(rows.size()), int64_t(rows[0].size())}, DType::f64);
  for (size_t t = 0; t < rows.size(); ++t)
    for (size_t c = 0; c < rows[t].size(); ++c) set_value(out, int64_t(t * rows[t].size() + c), std::log(rows[t][c]));
  return out;
}

double loss_of(const Tensor& logits, const std::vector<int32_t>& labels) {
  const Tensor nll = empty({1}, DType::f64);
  const Tensor ids = labels.empty() ? empty({0}, DType::i32) : tensor_of({int64_t(labels.size())}, labels);
  ctc_loss(logits, Sequences::single(logits.rows()), ids, Sequences::single(int64_t(labels.size())), 1, true, nullptr,
           nll);
  return value_at(nll, 0);
}

// oracle: app.ctc
TEST(CtcGreedy, CollapsesRepetitionsAndPlacesLabels) {
  // a a _ a
  const auto got = ctc_greedy(logits_of({{.7, .1, .2}, {.6, .2, .2}, {.1, .1, .8}, {.9, .05, .05}}), 0, 4);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].label, 0);
  EXPECT_EQ(got[0].begin, 0);
  EXPECT_EQ(got[0].end, 2);
  EXPECT_EQ(got[1].begin, 3);
  EXPECT_EQ(got[1].end, 4);
  EXPECT_NEAR(got[0].log_probability, (std::log(.7) + std::log(.6)) / 2, 1e-12);
}

// oracle: app.ctc
TEST(CtcAlignment, IsTheLikeliestOfAll) {
  const int64_t T = 5, C = 3;
  const Tensor logits = kit::normal({T, C}, DType::f64, 3);
  for (const std::vector<int32_t>& labels : std::vector<std::vector<int32_t>>{{}, {0}, {1, 0}, {0, 0}, {1, 1, 0}}) {
    double best = -1e300;
    std::vector<int32_t> classes(T), likeliest;
    for (int64_t code = 0; code < std::lround(std::pow(C, T)); ++code) {
      double sum = 0;
      std::vector<int32_t> written;
      for (int64_t t = 0, rest = code; t < T; ++t, rest /= C) {
        classes[size_t(t)] = int32_t(rest % C);
        sum += value_at(logits, t * C + rest % C);
        if (rest % C < 2 && (t == 0 || classes[size_t(t)] != classes[size_t(t) - 1]))
          written.push_back(int32_t(rest % C));
      }
      if (written == labels && sum > best) best = sum, likeliest = classes;
    }
    const auto got = ctc_alignment(logits, 0, T, labels);
    ASSERT_EQ(got.size(), labels.size());
    std::vector<int32_t> way(T, 2);
    for (const PlacedLabel& of : got)
      for (int64_t t = of.begin; t < of.end; ++t) way[size_t(t)] = of.label;
    EXPECT_EQ(way, likeliest);
  }
  EXPECT_NE(kit::error_of([&] { ctc_alignment(logits, 0, 2, {0, 0}); }).find("need 3 rows"), std::string::npos);
}

// oracle: app.ctc
TEST(CtcBeamSearch, WithAllBeamsSumsAllAlignments) {
  EXPECT_NEAR(loss_of(logits_of({{.6, 1e-12, .4}, {.7, 1e-12, .3}}), {0}), 0.127833, 1e-6);
  const Tensor logits = kit::normal({4, 3}, DType::f64, 5);
  const auto all = ctc_beam_search(logits, 0, 4, {.num_beams = 1000});
  double sum = 0;
  for (const CtcHypothesis& h : all) {
    EXPECT_NEAR(h.log_probability, -loss_of(logits, h.labels), 1e-9);
    sum += std::exp(h.log_probability);
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i - 1].score, all[i].score);
}

// The likeliest labels need not be those of the likeliest alignment.
TEST(CtcBeamSearch, FindsWhatGreedyMisses) {
  const Tensor logits = logits_of({{.4, 1e-9, .6}, {.4, 1e-9, .6}});
  EXPECT_TRUE(ctc_greedy(logits, 0, 2).empty());
  EXPECT_EQ(ctc_beam_search(logits, 0, 2, {.num_beams = 2})[0].labels, std::vector<int32_t>{0});
}

TEST(LabelNgrams, AreProbabilities) {
  const LabelNgrams ngrams({{0, 1, 2}, {0, 1}, {2}}, 3, 3);
  for (const std::vector<int32_t>& before : std::vector<std::vector<int32_t>>{{}, {0}, {0, 1}, {2, 2}, {1, 0, 1}}) {
    double sum = 0;
    for (int32_t next = 0; next <= ngrams.end(); ++next) sum += std::exp(ngrams.log_probability(before, next));
    EXPECT_NEAR(sum, 1, 1e-12);
  }
  // Order 1: 6 labels and 3 ends of 4 kinds; 0 twice.
  EXPECT_NEAR(std::exp(LabelNgrams({{0, 1, 2}, {0, 1}, {2}}, 1, 3).log_probability({}, 0)), (2 + 4 * 0.25) / (9 + 4),
              1e-12);
  EXPECT_GT(ngrams.log_probability({0}, 1), ngrams.log_probability({0}, 2));
}

TEST(CtcBeamSearch, NgramsAndBonusDecide) {
  const Tensor logits = logits_of({{.45, .46, .09}, {.05, .05, .9}});
  const LabelNgrams ngrams({{0}, {0}, {0}}, 2, 2);
  EXPECT_EQ(ctc_beam_search(logits, 0, 2, {.num_beams = 8})[0].labels, std::vector<int32_t>{1});
  EXPECT_EQ(ctc_beam_search(logits, 0, 2, {.num_beams = 8, .ngrams = &ngrams})[0].labels, std::vector<int32_t>{0});
  EXPECT_EQ(ctc_beam_search(logits, 0, 2, {.num_beams = 8, .label_bonus = -20})[0].labels, std::vector<int32_t>{});
}

}  // namespace
}  // namespace lithe
