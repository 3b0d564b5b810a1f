#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::unique_ptr<Head> span(kit::Bench& bench, int64_t d) {
  return bench.make<Head>("span", {.vocab_size = 7, .hidden_size = d, .num_labels = 1});
}

// -log softmax(column `side` of rows [begin, end))[label]
double nll(const Tensor& logits, int64_t begin, int64_t end, int64_t side, int64_t label) {
  double total = 0;
  for (int64_t n = begin; n < end; ++n) total += std::exp(value_at(logits, 2 * n + side));
  return std::log(total) - value_at(logits, 2 * (begin + label) + side);
}

TEST(SpanHead, CountsItsParameters) {
  for (const int64_t d : {768, 5, 16}) {
    kit::Bench bench(DType::f32, DType::f32, Device::meta);
    const auto head = span(bench, d);
    EXPECT_EQ(bench.parameters().count(), d * d + d + 2 * d);
    const Head::LabelCount count = head->count(Sequences({0, 4, 6, 9}));
    EXPECT_EQ(count.labels, 6);   // a begin and an end of each sequence
    EXPECT_EQ(count.classes, 2);  // rows that all sequences have
  }
}

TEST(SpanHead, LogitsAreTwoLinearMapsOfEachRowsDenseLayer) {
  kit::Bench bench;
  const auto head = span(bench, 4);
  kit::randomise(bench.parameters(), 1);
  const Tensor x = kit::normal({5, 4}, DType::f64, 2), got = head->logits({Var(x), Sequences({0, 2, 5})}).value();
  ASSERT_EQ(got.shape(), (Shape{5, 2}));
  const Tensor want = empty({5, 2}, DType::f64), hidden = kit::product(x, bench["part.dense.weight"]);
  for (int64_t i = 0; i < hidden.numel(); ++i)
    set_value(hidden, i, std::tanh(value_at(hidden, i) + value_at(bench["part.dense.bias"], i % 4)));
  for (int64_t side = 0; side < 2; ++side) {
    const std::string name = side == 0 ? "part.start" : "part.end";
    const Tensor column = kit::product(hidden, bench[name + ".weight"]);
    for (int64_t n = 0; n < 5; ++n) set_value(want, 2 * n + side, value_at(column, n));
  }
  EXPECT_EQ(kit::close(got, want, 8), "");
}

TEST(SpanHead, LossIsTheCrossEntropyOverTheRowsOfEachSequence) {
  kit::Bench bench;
  const auto head = span(bench, 4);
  kit::randomise(bench.parameters(), 1);
  const Sequences sequences({0, 4, 5, 8});
  const Tensor x = kit::normal({8, 4}, DType::f64, 2), logits = head->logits({Var(x), sequences}).value();
  const std::vector<int> labels{3, 0, 1, 3, -1, 2};  // begins, then ends
  const Tensor row_nll = empty({6}, DType::f64);
  LossSums sums;
  const Var loss =
      head->loss({Var(x), sequences}, {.labels = kit::ids_of(labels), .scale = 0.5, .sums = &sums, .row_nll = row_nll});
  double want = 0;
  for (int64_t i = 0; i < 6; ++i) {
    const int64_t b = i % 3;
    const double one =
        labels[size_t(i)] < 0 ? 0 : nll(logits, sequences.offset(b), sequences.offset(b + 1), i / 3, labels[size_t(i)]);
    EXPECT_NEAR(value_at(row_nll, i), one, 1e-14) << i;
    want += one;
  }
  EXPECT_EQ(value_at(row_nll, 1), 0);  // of one row there is no choice
  EXPECT_NEAR(value_at(loss.value(), 0), 0.5 * want, 1e-14);
  EXPECT_NEAR(sums.nll, want, 1e-14);
  EXPECT_EQ(sums.labels, 5);
}

TEST(SpanHead, GradientsAgreeWithDifferences) {
  kit::Bench bench;
  const auto head = span(bench, 3);
  kit::randomise(bench.parameters(), 1);
  const Sequences sequences({0, 4, 5, 8});
  std::string where;
  EXPECT_LE(kit::gradient_error(
                bench.parameters(),
                [&](const std::vector<Var>& in) {
                  return std::vector<Var>{
                      head->logits({in[0], sequences}),
                      head->loss({in[0], sequences},
                                 {.labels = kit::ids_of({3, 0, 1, 3, -1, 2}), .smoothing = 0.1, .scale = 0.7})};
                },
                {kit::normal({8, 3}, DType::f64, 2)}, &where),
            1e-7)
      << where;
}

// What padding would break: the rows of one sequence decide its share of the loss alone.
TEST(SpanHead, BatchMatesDoNotMatter) {
  kit::Bench bench(DType::f32, DType::f32);
  const auto head = span(bench, 4);
  kit::randomise(bench.parameters(), 1);
  const Tensor x = kit::normal({7, 4}, DType::f32, 2), together = empty({4}, DType::f32),
               alone = empty({2}, DType::f32);
  const Sequences sequences({0, 4, 7}), second = Sequences::single(3);
  head->loss({Var(x), sequences}, {.labels = kit::ids_of({3, 1, 0, 2}), .row_nll = together});
  head->loss({Var(clone(x.slice(4, 7))), second}, {.labels = kit::ids_of({1, 2}), .row_nll = alone});
  EXPECT_EQ(value_at(together, 1), value_at(alone, 0));
  EXPECT_EQ(value_at(together, 3), value_at(alone, 1));
}

TEST(SpanHead, AnAnswerBeyondItsSequenceIsRefused) {
  kit::Bench bench;
  const auto head = span(bench, 4);
  const Sequences sequences({0, 4, 7});
  for (const auto& [labels, text] : {std::pair<std::vector<int>, std::string>{{0, 3, 0, 0}, "label 3"},
                                     {{0, 0, 4, 0}, "label 4"},
                                     {{0, 0, 0, 0, 0}, "labels must be i32 [4]"},
                                     {{0, 0, 0}, "labels must be i32 [4]"}})
    try {
      head->loss({Var(kit::normal({7, 4}, DType::f64, 2)), sequences}, {.labels = kit::ids_of(labels)});
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
}

TEST(SpanHead, EmptySequencesAreRefusedByName) {
  kit::Bench bench;
  const auto head = span(bench, 4);
  const Sequences sequences({0, 3, 3});
  try {
    head->loss({Var(kit::normal({3, 4}, DType::f64, 2)), sequences}, {.labels = kit::ids_of({0, 0, 0, 0})});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sequence 1 is empty"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lithe
