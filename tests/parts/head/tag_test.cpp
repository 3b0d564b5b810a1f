#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::unique_ptr<Head> tag(kit::Bench& bench, int64_t d, int64_t classes, const std::string& options = "{}") {
  return bench.make<Head>("tag", {.vocab_size = 7, .hidden_size = d, .num_labels = classes}, options);
}

TEST(TagHead, CountsItsParameters) {
  for (const auto& [d, classes] : {std::array<int64_t, 2>{768, 3}, {5, 2}, {16, 17}}) {
    kit::Bench bench(DType::f32, DType::f32, Device::meta);
    const auto head = tag(bench, d, classes);
    EXPECT_EQ(bench.parameters().count(), d * classes + classes);
    EXPECT_EQ(head->count(Sequences({0, 2, 9})).labels, 9);  // one a token
    EXPECT_EQ(head->count(Sequences({0, 2, 9})).classes, classes);
  }
}

TEST(TagHead, IsALinearMapOfEachRow) {
  kit::Bench bench;
  const auto head = tag(bench, 4, 3);
  kit::randomise(bench.parameters(), 1);
  const Tensor x = kit::normal({6, 4}, DType::f64, 2), got = head->logits({Var(x), Sequences({0, 2, 6})}).value();
  Tensor want = kit::product(x, bench["part.out.weight"]);
  for (int64_t i = 0; i < want.numel(); ++i)
    set_value(want, i, value_at(want, i) + value_at(bench["part.out.bias"], i % 3));
  EXPECT_EQ(kit::close(got, want, 8), "");
  // However the rows are grouped.
  EXPECT_EQ(kit::bit_difference(head->logits({Var(x), Sequences::single(6)}).value(), got), "");
}

// oracle: train.shuffle_random
TEST(TagHead, AUniformHeadCostsTheLogarithmOfThree) {
  kit::Bench bench;
  const auto head = tag(bench, 4, 3);
  kit::assign(bench["part.out.weight"], std::vector<double>(12, 0));
  LossSums sums;
  const Sequences sequences = Sequences::single(5);
  head->loss({Var(kit::normal({5, 4}, DType::f64, 2)), sequences},
             {.labels = kit::ids_of({-1, 0, 1, 2, -1}), .sums = &sums});
  EXPECT_EQ(sums.labels, 3);
  EXPECT_NEAR(sums.loss / 3, 1.098612, 5e-7);
  EXPECT_NEAR(sums.loss / 3, std::log(3.0), 4 * 0x1p-53);
}

// oracle: app.classify
TEST(TagHead, ClassesMayBeRenumbered) {
  const std::vector<int64_t> order{2, 0, 1};  // class c was class order[c]
  kit::Bench bench, other;
  const auto head = tag(bench, 4, 3), renumbered = tag(other, 4, 3);
  kit::randomise(bench.parameters(), 1);
  kit::assign(other["part.out.weight"], kit::columns_of(bench["part.out.weight"], order));
  for (int64_t c = 0; c < 3; ++c)
    set_value(other["part.out.bias"], c, value_at(bench["part.out.bias"], order[size_t(c)]));
  const Sequences sequences({0, 2, 5});
  const Tensor x = kit::normal({5, 4}, DType::f64, 2);
  EXPECT_EQ(kit::close(renumbered->logits({Var(x), sequences}).value(),
                       kit::columns_of(head->logits({Var(x), sequences}).value(), order), 8),
            "");
  const auto loss = [&](const Head& of, const std::vector<int>& labels) {
    return value_at(of.loss({Var(x), sequences}, {.labels = kit::ids_of(labels)}).value(), 0);
  };
  const double want = loss(*head, {0, 1, 2, -1, 1});
  EXPECT_NEAR(loss(*renumbered, {1, 2, 0, -1, 2}), want, 16 * 0x1p-53 * want);
}

// Rows without a label are not learnt from, and the batch's loss is the sum of its sequences'.
TEST(TagHead, TokensWithoutALabelDoNotCount) {
  kit::Bench bench;
  const auto head = tag(bench, 4, 3);
  kit::randomise(bench.parameters(), 1);
  const Tensor x = kit::normal({5, 4}, DType::f64, 2);
  const Sequences sequences({0, 2, 5});
  const Var leaf = Var::leaf(clone(x));
  LossSums sums;
  const Tensor row_nll = empty({5}, DType::f64);
  {
    Tape tape;
    tape.backward(
        head->loss({leaf, sequences},
                   {.labels = kit::ids_of({-1, 1, -1, 2, -1}), .scale = 0.5, .sums = &sums, .row_nll = row_nll}));
  }
  for (int64_t n = 0; n < 5; ++n) {
    const bool labelled = n == 1 || n == 3;
    for (int64_t c = 0; c < 4; ++c) EXPECT_EQ(value_at(leaf.grad(), n * 4 + c) != 0, labelled) << n;
    EXPECT_EQ(value_at(row_nll, n) != 0, labelled) << n;
  }
  EXPECT_EQ(sums.labels, 2);
  EXPECT_NEAR(sums.nll, value_at(row_nll, 1) + value_at(row_nll, 3), 4 * 0x1p-53 * sums.nll);
}

TEST(TagHead, DropsOnlyInTraining) {
  kit::Bench bench;
  const auto head = tag(bench, 32, 3, "{dropout: 0.5}");
  const Var x(kit::normal({5, 32}, DType::f64, 2));
  const auto logits = [&] { return head->logits({x, Sequences::single(5)}).value(); };
  const Tensor evaluated = logits();
  EXPECT_EQ(kit::bit_difference(logits(), evaluated), "");
  const Tape tape;
  EXPECT_NE(kit::bit_difference(logits(), evaluated), "");
}

TEST(TagHead, NeedsClasses) {
  kit::Bench bench;
  try {
    tag(bench, 4, 0);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("num_labels"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lithe
