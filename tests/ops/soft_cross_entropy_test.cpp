#include "lithe/ops/soft_cross_entropy.h"

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

Tensor logarithms(const std::vector<double>& p) {
  std::vector<double> out;
  for (double x : p) out.push_back(std::log(x));
  return kit::tensor_f64({1, int64_t(p.size())}, out);
}

double soft_loss(const Tensor& x, const Tensor& other, bool divergence, double temperature = 1) {
  return value_at(soft_cross_entropy(Var(x), {clone(other), temperature, divergence}, kit::ids_of({0}), 1).value(), 0);
}

// oracle: kd.word
TEST(SoftCrossEntropy, PublishedNumbers) {
  const Tensor teacher = logarithms({0.7, 0.2, 0.1}), student = logarithms({0.5, 0.3, 0.2});
  EXPECT_NEAR(soft_loss(student, teacher, false), 0.886941, 1e-6);
  EXPECT_NEAR(soft_loss(student, teacher, true), 0.085123, 1e-6);
  EXPECT_NEAR(soft_loss(teacher, teacher, false), 0.801819, 1e-6);  // its entropy: the least there is
  EXPECT_NEAR(soft_loss(teacher, teacher, true), 0, 1e-14);
}

TEST(SoftCrossEntropy, ATeacherThatIsSureIsALabel) {
  const Tensor x = random({3, 5}, 1), labels = kit::ids_of({4, 0, 2});
  Tensor sure = zeros({3, 5}, DType::f64);
  for (int64_t n = 0; n < 3; ++n) set_value(sure, n * 5 + int64_t(value_at(labels, n)), 200);
  EXPECT_NEAR(value_at(soft_cross_entropy(Var(x), {sure}, labels, 0.5).value(), 0),
              value_at(cross_entropy(Var(x), labels, 0, 0.5).value(), 0), 1e-12);
}

TEST(SoftCrossEntropy, GradientIsTheDifferenceOfProbabilities) {
  const Tensor x = random({3, 5}, 1), other = random({3, 5}, 2), labels = kit::ids_of({4, -1, 2});
  for (const bool divergence : {false, true})
    for (const double temperature : {1.0, 2.5}) {
      const auto f = [&](const Vars& in) {
        return soft_cross_entropy(in[0], {clone(other), temperature, divergence}, labels, 1.0 / 3);
      };
      const auto got = kit::differentiate(f, {x}, kit::tensor_f64({1}, {1})).gradients[0];
      for (int64_t n = 0; n < 3; ++n) {
        double mine = 0, theirs = 0;
        for (int64_t v = 0; v < 5; ++v) {
          mine += std::exp(value_at(x, n * 5 + v) / temperature);
          theirs += std::exp(value_at(other, n * 5 + v) / temperature);
        }
        for (int64_t v = 0; v < 5; ++v) {
          const double p = std::exp(value_at(x, n * 5 + v) / temperature) / mine,
                       q = std::exp(value_at(other, n * 5 + v) / temperature) / theirs;
          EXPECT_NEAR(value_at(got, n * 5 + v), n == 1 ? 0 : temperature * (p - q) / 3, 1e-14);
        }
      }
    }
}

TEST(SoftCrossEntropy, TheTemperatureDividesLogitsAndItsSquareMultipliesTheLoss) {
  const Tensor x = random({1, 4}, 3), other = random({1, 4}, 4);
  Tensor x2 = clone(x), other2 = clone(other);
  for (int64_t i = 0; i < 4; ++i) set_value(x2, i, value_at(x, i) / 3), set_value(other2, i, value_at(other, i) / 3);
  EXPECT_NEAR(soft_loss(x, other, false, 3), 9 * soft_loss(x2, other2, false), 1e-12);
}

TEST(SoftCrossEntropy, SingleNumbersAreNear) {
  const Tensor x = convert(random({3, 50}, 5), DType::f32), other = convert(random({3, 50}, 6), DType::f32);
  const Tensor labels = kit::ids_of({4, 7, 49});
  for (const bool divergence : {false, true})
    EXPECT_NEAR(
        value_at(soft_cross_entropy(Var(x), {clone(other), 1, divergence}, labels, 1).value(), 0),
        value_at(soft_cross_entropy(Var(convert(x, DType::f64)), {convert(other, DType::f64), 1, divergence}, labels, 1)
                     .value(),
                 0),
        1e-4);
}

TEST(SoftCrossEntropy, TheLargestShareWhatIsLeft) {
  const Tensor x = logarithms({0.1, 0.4, 0.2, 0.3});
  keep_largest(x, 2);
  const Tensor student = random({1, 4}, 7);
  const double whole = std::exp(value_at(student, 0)) + std::exp(value_at(student, 1)) +
                       std::exp(value_at(student, 2)) + std::exp(value_at(student, 3));
  const double wanted = std::log(whole) - (4.0 / 7) * value_at(student, 1) - (3.0 / 7) * value_at(student, 3);
  EXPECT_NEAR(soft_loss(student, x, false), wanted, 1e-12);
  const double entropy = -(4.0 / 7) * std::log(4.0 / 7) - (3.0 / 7) * std::log(3.0 / 7);
  EXPECT_NEAR(soft_loss(student, x, true), wanted - entropy, 1e-12);
}

}  // namespace
}  // namespace lithe
