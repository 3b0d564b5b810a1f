#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// What the part adds to zero rows of a sequence of n.
Tensor table(int64_t n, int64_t d, const std::string& options = "{}") {
  kit::Bench bench;
  const auto part = bench.make<Position>("sinusoidal", {.hidden_size = d, .max_position_embeddings = n}, options);
  EXPECT_EQ(bench.parameters().count(), 0);
  return part->add_to(Var(zeros({n, d}, DType::f64)), Sequences::single(n)).value();
}

double dot(const Tensor& x, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t c = 0; c < x.cols(); ++c) sum += value_at(x, i * x.cols() + c) * value_at(x, j * x.cols() + c);
  return sum;
}

// oracle: pos.sinusoidal
TEST(Sinusoidal, HasTheTextbooksNumbers) {
  EXPECT_EQ(kit::close_to_printed(table(2, 4),
                                  {0.841471, 0.540302, 0.010000, 0.999950, 0.909297, -0.416147, 0.019999, 0.999800}, 6),
            "");
}

TEST(Sinusoidal, RowsHaveConstantNormAndTheirProductsDependOnTheDistance) {
  const int64_t n = 40, d = 10;
  const Tensor x = table(n, d);
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_NEAR(dot(x, i, i), double(d) / 2, 1e-14);
    for (int64_t k = 0; k < d; k += 2)
      EXPECT_NEAR(std::hypot(value_at(x, i * d + k), value_at(x, i * d + k + 1)), 1, 4e-16);
  }
  // Angles up to 40 are rounded to 40 2^-53 before sine and cosine.
  for (int64_t shift = 1; shift < n; shift += 7)
    for (int64_t i = 0; i + shift < n; ++i)
      EXPECT_NEAR(dot(x, i, i + shift), dot(x, 0, shift), 10 * 40 * 0x1p-52) << i << " " << shift;
}

TEST(Sinusoidal, OneRotationMovesEveryPositionBy3) {
  const int64_t n = 20, d = 8, shift = 3;
  const Tensor x = table(n, d);
  for (int64_t k = 0; k < d / 2; ++k) {
    const double angle = double(shift) / std::pow(10000.0, 2.0 * double(k) / double(d)), c = std::cos(angle),
                 s = std::sin(angle);
    for (int64_t i = 0; i + shift < n; ++i) {
      const double sine = value_at(x, i * d + 2 * k), cosine = value_at(x, i * d + 2 * k + 1);
      EXPECT_NEAR(value_at(x, (i + shift) * d + 2 * k), sine * c + cosine * s, 20 * 0x1p-52);
      EXPECT_NEAR(value_at(x, (i + shift) * d + 2 * k + 1), cosine * c - sine * s, 20 * 0x1p-52);
    }
  }
}

TEST(Sinusoidal, OddWidthsDropTheLastCosine) {
  const Tensor x = table(3, 5);
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_NEAR(value_at(x, i * 5 + 4), std::sin(double(i + 1) / std::pow(10000.0, 4.0 / 5)), 1e-16);
}

TEST(Sinusoidal, OptionsSetFirstPositionBaseAndLayout) {
  EXPECT_EQ(kit::close(table(1, 4, "{offset: 0}"), kit::tensor_f64({1, 4}, {0, 1, 0, 1}), 1), "");
  EXPECT_EQ(kit::close(table(1, 4, "{base: 16}"),
                       kit::tensor_f64({1, 4}, {std::sin(1), std::cos(1), std::sin(0.25), std::cos(0.25)}), 1),
            "");
  const Tensor interleaved = table(4, 6);
  EXPECT_EQ(
      kit::bit_difference(table(4, 6, "{layout: concatenated}"), kit::columns_of(interleaved, {0, 2, 4, 1, 3, 5})), "");
  EXPECT_EQ(kit::bit_difference(table(4, 5, "{layout: concatenated}"), kit::columns_of(table(4, 5), {0, 2, 4, 1, 3})),
            "");
}

TEST(Sinusoidal, PositionsStartAnewInEverySequenceAndContinueAfterThePast) {
  kit::Bench bench;
  const auto part = bench.make<Position>("sinusoidal", {.hidden_size = 4, .max_position_embeddings = 8});
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const Tensor got = part->add_to(Var(x), Sequences({0, 2, 5}, {0, 4})).value();
  EXPECT_EQ(kit::close(got, kit::sum(x, kit::rows_of(table(8, 4), {0, 1, 4, 5, 6})), 2), "");
}

TEST(Sinusoidal, SequencesLongerThanTheLimitAreRefused) {
  const Model model(
      kit::model_config(
          "{vocab_size: 5, hidden_size: 8, num_hidden_layers: 0, max_position_embeddings: 6, position: sinusoidal}"),
      {});
  EXPECT_EQ(model.position_limit(), 6);
  EXPECT_EQ(kit::forward(model, kit::random_ids(6, 5, 1), Sequences::single(6)).rows(), 6);
  try {
    kit::forward(model, kit::random_ids(7, 5, 1), Sequences::single(7));
    FAIL() << "took 7 tokens";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "model: a sequence of 7 tokens is longer than max_position_embeddings 6; shorten it, or train with "
                 "more positions");
  }
}

}  // namespace
}  // namespace lithe
