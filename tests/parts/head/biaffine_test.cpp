#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::unique_ptr<Head> biaffine(kit::Bench& bench, bool causal = false) {
  return bench.make<Head>("biaffine", {.vocab_size = 7, .hidden_size = 4, .num_labels = 3, .causal = causal},
                          "{arc_size: 5, label_size: 2, dropout: 0}");
}

TEST(BiaffineHead, CountsItsParameters) {
  kit::Bench bench;
  const auto head = biaffine(bench);
  const int64_t d = 4, a = 5, b = 2, C = 3;
  EXPECT_EQ(bench.parameters().count(), 2 * (d * a + a) + 2 * (d * b + b) + a + b + a * a + a + 3 * b * C + C);
  EXPECT_EQ(head->count(Sequences({0, 2, 9})).labels, 18);  // a head and a label for each row
  EXPECT_NE(kit::coded_error_of([] {
              kit::Bench other;
              biaffine(other, true);
            }).find("architecture: encoder"),
            std::string::npos);
}

// Without arcs, prior and labels every head is as likely as any other, and so is every label.
TEST(BiaffineHead, AUniformParserCostsTheLogarithmsOfItsChoices) {
  kit::Bench bench;
  const auto head = biaffine(bench);
  kit::randomise(bench.parameters(), 3);
  for (const char* name : {"part.arcs.weight", "part.prior.weight", "part.labels.weight", "part.labels.bias",
                           "part.labels_word.weight", "part.labels_head.weight"})
    fill_zero(bench[name]);
  const Rows rows{Var(kit::normal({5, 4}, DType::f64, 1)), Sequences({0, 3, 5})};
  LossSums sums;
  // Heads of words at rows 0, 2 and 3; row 1 begins no word, and nor does row 4.
  head->loss(rows, {.labels = kit::ids_of({0, -1, 1, 0, -1, 2, -1, 0, 1, -1}), .sums = &sums});
  EXPECT_EQ(sums.labels, 6);
  // Two words of the first text: the root or the other word; one of the second: the root.
  EXPECT_NEAR(sums.nll, 2 * std::log(2) + 3 * std::log(3), 1e-12);
}

// Scores are arcs of the text alone: the root, then its rows.
TEST(BiaffineHead, ATextIsScoredByItself) {
  kit::Bench bench;
  const auto head = biaffine(bench);
  kit::randomise(bench.parameters(), 3);
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const Tensor both = head->logits({Var(x), Sequences({0, 3, 5})}).value(),
               last = head->logits({Var(x.slice(3, 5)), Sequences::single(2)}).value();
  ASSERT_EQ(both.shape(), (Shape{5, 4}));
  ASSERT_EQ(last.shape(), (Shape{2, 3}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(value_at(both, (3 + i) * 4 + j), value_at(last, i * 3 + j));
    EXPECT_EQ(value_at(both, (3 + i) * 4 + 3), -1e30);
  }
}

// The loss is of the probabilities that a parse has: of the root and of the rows that other words begin at.
TEST(BiaffineHead, LearnsAmongTheHeadsThatAParseAllows) {
  kit::Bench bench;
  const auto head = biaffine(bench);
  kit::randomise(bench.parameters(), 5);
  for (const char* name :
       {"part.labels.weight", "part.labels.bias", "part.labels_word.weight", "part.labels_head.weight"})
    fill_zero(bench[name]);
  // Words begin at rows 1, 2 and 4 of the first text, and at 1 of the second; the head of the word at 4 was cut off.
  const Tensor x = kit::normal({9, 4}, DType::f64, 2);
  const Tensor labels = kit::ids_of({-1, 3, 0, -1, -2, -1, -1, 0, -1, -1, 1, 2, -1, -1, -1, -1, 0, -1});
  const auto loss = [&](const Var& rows, double smoothing, LossSums* sums, const Tensor& nll) {
    return head->loss({rows, Sequences({0, 6, 9})},
                      {.labels = labels, .smoothing = smoothing, .sums = sums, .row_nll = nll});
  };
  LossSums sums;
  const Tensor nll = empty({18}, DType::f64);
  loss(Var(x), 0, &sums, nll);
  const auto parses = head->parse({Var(x), Sequences({0, 6, 9})}, {{1, 2, 4}, {1}}, false);
  const double first = -std::log(parses[0].probabilities[0][2]), second = -std::log(parses[0].probabilities[1][0]);
  EXPECT_EQ(sums.labels, 6);
  EXPECT_NEAR(sums.nll, first + second + 3 * std::log(3), 1e-12);
  EXPECT_NEAR(value_at(nll, 1), first, 1e-12);
  EXPECT_NEAR(value_at(nll, 2), second, 1e-12);
  EXPECT_EQ(value_at(nll, 0), 0);
  EXPECT_NEAR(value_at(nll, 10), std::log(3), 1e-12);

  // Rows of no word are no candidates, also of smoothed losses, and get no gradient; nor does a word that has no
  // choice.
  for (const double smoothing : {0.0, 0.2}) {
    const Var rows = Var::leaf(clone(x));
    {
      Tape tape;
      tape.backward(loss(rows, smoothing, nullptr, {}));
    }
    const Tensor got = rows.grad();
    for (int64_t i = 0; i < x.numel(); ++i) {
      const bool word = i / 4 == 1 || i / 4 == 2 || i / 4 == 4;
      const Tensor up = clone(x), down = clone(x);
      set_value(up, i, value_at(x, i) + 1e-5), set_value(down, i, value_at(x, i) - 1e-5);
      const double want = (value_at(loss(Var(up), smoothing, nullptr, {}).value(), 0) -
                           value_at(loss(Var(down), smoothing, nullptr, {}).value(), 0)) /
                          2e-5;
      EXPECT_NEAR(value_at(got, i), want, 1e-8) << i;
      EXPECT_EQ(value_at(got, i) != 0, word) << i;
    }
  }
  EXPECT_NE(kit::error_of([&] {
              head->loss({Var(x.slice(0, 2)), Sequences::single(2)}, {.labels = kit::ids_of({2, -1, 0, -1})});
            }).find("a row that another word begins at"),
            std::string::npos);
}

TEST(BiaffineHead, ParsesAreTreesWithOneRootAndTheLikeliestLabels) {
  kit::Bench bench;
  const auto head = biaffine(bench);
  for (uint64_t seed = 1; seed < 20; ++seed) {
    kit::randomise(bench.parameters(), seed);
    const Rows rows{Var(kit::normal({7, 4}, DType::f64, seed, 3)), Sequences::single(7)};
    for (const bool projective : {false, true}) {
      const auto parse = head->parse(rows, {{0, 2, 3, 6}}, projective)[0];
      ASSERT_EQ(parse.heads.size(), 4u);
      EXPECT_EQ(std::count(parse.heads.begin(), parse.heads.end(), 0), 1);
      for (int32_t w = 1; w <= 4; ++w) {
        int32_t at = w;
        for (int steps = 0; at != 0 && steps <= 4; ++steps) at = parse.heads[size_t(at - 1)];
        EXPECT_EQ(at, 0) << "word " << w << " is in a cycle";
        const std::vector<double>& p = parse.probabilities[size_t(w - 1)];
        EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-12);
        EXPECT_EQ(p[size_t(w)], 0);  // nobody is the head of itself
        EXPECT_LT(parse.labels[size_t(w - 1)], 3);
      }
    }
  }
}

}  // namespace
}  // namespace lithe
