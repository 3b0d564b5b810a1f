#include "lithe/kernels/cross_entropy/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"
#include "tests/support/numbers.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

struct Result {
  Tensor losses, nll, gradient;
};
Result run(const Tensor& logits, const Tensor& labels, double smoothing = 0, double scale = 1) {
  const int64_t N = logits.rows();
  const DType type = wide(logits.dtype());
  Result r{empty({N}, type), empty({N}, type), clone(logits)};
  cross_entropy({r.gradient, labels, r.losses, r.nll, smoothing, scale, true});
  return r;
}

// The loss is a logarithm of a sum of V exponentials, each within 3 eps plus the rounding of x - max, then
// relative to the sizes of the logits.
TEST(CrossEntropy, EveryImplementationAgreesWithTheFormula) {
  for (const DType type : kTypes)
    for (const double smoothing : {0.0, 0.1})
      for (const int64_t V :
           {int64_t(1), int64_t(3), int64_t(17), int64_t(63), int64_t(64), int64_t(65), int64_t(1000), int64_t(5001)}) {
        const int64_t N = 5;
        const double scale = 0.25;
        const Tensor logits = random_tensor({N, V}, type, 1, 4), labels = random_ints({N}, 0, V, 2);
        set_value(labels, 3, -1);
        const Tensor losses = zeros({N}, DType::f64), nll = zeros({N}, DType::f64),
                     gradient = zeros({N, V}, DType::f64);
        double largest = 0;
        for (int64_t i = 0; i < N * V; ++i) largest = std::max(largest, std::abs(at(logits, i)));
        for (int64_t n = 0; n < N; ++n) {
          if (n == 3) continue;
          double sum = 0, uniform = 0;
          for (int64_t v = 0; v < V; ++v) sum += std::exp(at(logits, n * V + v));
          const double lse = std::log(sum);
          for (int64_t v = 0; v < V; ++v) uniform += (lse - at(logits, n * V + v)) / double(V);
          const int64_t label = int64_t(at(labels, n));
          set_value(nll, n, lse - at(logits, n * V + label));
          set_value(losses, n, (1 - smoothing) * at(nll, n) + smoothing * uniform);
          for (int64_t v = 0; v < V; ++v)
            set_value(gradient, n * V + v,
                      scale * (std::exp(at(logits, n * V + v) - lse) - smoothing / double(V) -
                               (v == label ? 1 - smoothing : 0)));
        }
        const double eps = arithmetic(type), spread = double(V) / 16 + 8 + 4 * largest;
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " V ", V, " smoothing ", smoothing);
          const Guarded x(logits);
          const Tensor l = empty({N}, wide(type)), plain = empty({N}, wide(type));
          cross_entropy({x.tensor(), labels, l, plain, smoothing, scale, true});
          expect_close(l, losses, spread * eps * (1 + largest), what + " losses");
          expect_close(plain, nll, spread * eps * (1 + largest), what + " nll");
          expect_close(
              x.tensor(), gradient,
              [&](int64_t i) {
                const double p = std::abs(at(gradient, i)) + scale * smoothing / double(V);
                return epsilon_of(type) * std::abs(at(gradient, i)) +
                       spread * eps * (i % V == int64_t(at(labels, i / V)) ? scale : p);
              },
              what + " gradient");
          x.expect_untouched(what);
          // Without the gradient the logits stay, and the losses are the same.
          const Tensor kept = clone(logits), again = empty({N}, wide(type));
          cross_entropy({kept, labels, again, {}, smoothing, scale});
          expect_same_bits(kept, logits, what + " logits");
          expect_same_bits(again, l, what + " losses alone");
        });
      }
}

// oracle: train.nll
TEST(CrossEntropy, OfUniformLogitsIsLogV) {
  for (const DType type : kTypes)
    on_every_implementation([&](const std::string& isa) {
      for (const int64_t V : {int64_t(2), int64_t(50), int64_t(8192)}) {
        const Tensor logits = zeros({1, V}, type);
        const Result r = run(logits, kit::ids_of({1}));
        EXPECT_NEAR(at(r.losses, 0), std::log(double(V)), 1e-6) << isa << " " << type;
        // e^(0 - log V): the exponent is rounded to log V eps
        EXPECT_NEAR(at(r.gradient, 0), 1 / double(V), epsilon_of(type) / double(V) * (4 + std::log(double(V))))
            << isa << " " << type;
        EXPECT_NEAR(at(r.gradient, 1), 1 / double(V) - 1, epsilon_of(type)) << isa << " " << type;
      }
    });
}

// oracle: train.nll
TEST(CrossEntropy, SmoothingZeroShiftsAndMissingLabelsChangeNothing) {
  const Tensor logits = random_tensor({3, 11}, DType::f64, 3), labels = kit::ids_of({4, -1, 0}),
               shifted = clone(logits);
  for (int64_t i = 0; i < logits.numel(); ++i) set_value(shifted, i, at(logits, i) + 3);
  const Result plain = run(logits, labels, 0, 0.5), zero = run(logits, labels, 0.0, 0.5),
               moved = run(shifted, labels, 0, 0.5);
  expect_same_bits(zero.losses, plain.losses, "smoothing 0");
  expect_same_bits(plain.nll, plain.losses, "nll without smoothing");
  expect_close(moved.losses, plain.losses, 1e-14, "shifted losses");
  expect_close(moved.gradient, plain.gradient, 1e-14, "shifted gradient");
  EXPECT_EQ(at(plain.losses, 1), 0);
  for (int64_t v = 0; v < 11; ++v) EXPECT_EQ(at(plain.gradient, 11 + v), 0);
  double sum = 0;
  for (int64_t v = 0; v < 11; ++v) sum += at(plain.gradient, v);
  EXPECT_NEAR(sum, 0, 1e-15);
  // With smoothing the plain nll is still reported.
  const Result smooth = run(logits, labels, 0.2);
  expect_same_bits(smooth.nll, plain.losses, "nll with smoothing");
  EXPECT_GT(std::abs(at(smooth.losses, 0) - at(plain.losses, 0)), 1e-3);
}

// oracle: train.nll
TEST(CrossEntropy, GradientMatchesCentralDifferences) {
  const Tensor logits = random_tensor({4, 7}, DType::f64, 4), labels = kit::ids_of({0, 6, -1, 3});
  for (const double smoothing : {0.0, 0.15}) {
    const Result r = run(logits, labels, smoothing, 0.25);
    const Tensor losses = empty({4}, DType::f64);
    expect_gradient(
        r.gradient, logits,
        [&] {
          cross_entropy({logits, labels, losses, {}, smoothing});
          double sum = 0;
          for (int64_t n = 0; n < 4; ++n) sum += at(losses, n) * 0.25;
          return sum;
        },
        cat("smoothing ", smoothing));
  }
}

TEST(CrossEntropy, IsFiniteForHugeLogitsAndHonestAboutBrokenOnes) {
  on_every_implementation([&](const std::string& isa) {
    const float huge[] = {1000, -1000, 998, 3e38f, -3e38f, 0, NAN, 0, 0, -INFINITY, -INFINITY, 2};
    const Result r = run(tensor_of({4, 3}, huge), kit::ids_of({0, 0, 1, 2}));
    EXPECT_NEAR(at(r.losses, 0), std::log1p(std::exp(-2.0)), 1e-6) << isa;
    EXPECT_EQ(at(r.gradient, 1), 0) << isa;
    EXPECT_EQ(at(r.losses, 1), 0) << isa;
    EXPECT_TRUE(std::isnan(at(r.losses, 2))) << isa;
    EXPECT_EQ(at(r.losses, 3), 0) << isa;
    EXPECT_EQ(at(r.gradient, 9), 0) << isa;
  });
}

// A maximum that rises from block to block rescales what was summed before.
TEST(CrossEntropy, HandlesARisingMaximum) {
  const int64_t V = 9000;
  const Tensor logits = empty({1, V}, DType::f32);
  for (int64_t v = 0; v < V; ++v) set_value(logits, v, 0.004 * double(v));
  double sum = 0;
  for (int64_t v = 0; v < V; ++v) sum += std::exp(at(logits, v) - 36);
  on_every_implementation([&](const std::string& isa) {
    const Result r = run(logits, kit::ids_of({17}));
    EXPECT_NEAR(at(r.losses, 0), std::log(sum) + 36 - at(logits, 17), 1e-5) << isa;
  });
}

TEST(CrossEntropy, RowsDoNotDependOnTheBatchNorOnThreads) {
  const int64_t N = 200, V = 1003;
  const Tensor labels = random_ints({N}, -1, V, 5);
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor logits = random_tensor({N, V}, type, 6, 3);
    const Result all = run(logits, labels, 0.1);
    const WithThreads with(3);
    const Result three = run(logits, labels, 0.1);
    expect_same_bits(three.losses, all.losses, "losses on three threads");
    expect_same_bits(three.gradient, all.gradient, "gradient on three threads");
    for (const int64_t n : {int64_t(0), int64_t(101), N - 1}) {
      const Result one = run(logits.slice(n, n + 1), labels.slice(n, n + 1), 0.1);
      expect_same_bits(one.losses, all.losses.slice(n, n + 1), "loss alone");
      expect_same_bits(one.gradient, all.gradient.slice(n, n + 1), "gradient alone");
    }
  }
}

TEST(CrossEntropy, RefusesALabelBeyondTheVocabulary) {
  const Tensor logits = zeros({2, 4}, DType::f32), losses = zeros({2}, DType::f32);
  try {
    cross_entropy({logits, kit::ids_of({0, 4}), losses, {}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "cross_entropy: labels must be below the 4 columns of logits, got 4 in row 1; use -1 for no label");
  }
}

TEST(Softmax, EveryImplementationAgreesWithTheFormula) {
  for (const DType type : kTypes)
    for (const bool log : {false, true})
      for (const double scale : {1.0, -0.5})
        for (const int64_t C : {int64_t(1), int64_t(3), int64_t(17), int64_t(63), int64_t(64), int64_t(65),
                                int64_t(1000), int64_t(5001)}) {
          const int64_t N = 3;
          const Tensor x = random_tensor({N, C}, type, 7, 3), exact = empty({N, C}, DType::f64);
          for (int64_t n = 0; n < N; ++n) {
            double sum = 0;
            for (int64_t c = 0; c < C; ++c) sum += std::exp(scale * at(x, n * C + c));
            for (int64_t c = 0; c < C; ++c) {
              const double log_p = scale * at(x, n * C + c) - std::log(sum);
              set_value(exact, n * C + c, log ? log_p : std::exp(log_p));
            }
          }
          const double spread = (double(C) / 16 + 60) * arithmetic(type);
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", type, " C ", C, log ? " log" : "", " scale ", scale);
            const Guarded y(x);
            softmax({y.tensor(), y.tensor(), scale, log});
            expect_close(
                y.tensor(), exact,
                [&](int64_t i) { return (epsilon_of(type) + spread) * (std::abs(at(exact, i)) + (log ? 1 : 0)); },
                what);
            y.expect_untouched(what);
          });
        }
}

// oracle: train.stability
TEST(Softmax, IsFiniteForHugeNumbersAndZeroForARowThatSeesNothing) {
  const float in[] = {1000, 1000, -1000, -INFINITY, -INFINITY, -INFINITY, 0, -INFINITY, 0, 0, NAN, 1};
  const Tensor x = tensor_of({4, 3}, in);
  for (const DType type : kTypes)
    on_every_implementation([&](const std::string& isa) {
      const Tensor y = empty({4, 3}, type), z = empty({4, 3}, type);
      softmax({convert(x, type), y});
      softmax({convert(x, type), z, 1, true});
      const double expected[] = {0.5, 0.5, 0, 0, 0, 0, 0.5, 0, 0.5};
      for (int64_t i = 0; i < 9; ++i)
        EXPECT_NEAR(at(y, i), expected[i], expected[i] * 2 * arithmetic(type))
            << isa << " " << type << " element " << i;
      EXPECT_TRUE(std::isnan(at(y, 9)) && std::isnan(at(z, 9))) << isa << " " << type;
      EXPECT_NEAR(at(z, 0), -std::log(2), 2 * epsilon_of(type)) << isa << " " << type;
      for (int64_t i = 3; i < 6; ++i) EXPECT_EQ(at(z, i), -INFINITY) << isa << " " << type;
    });
}

}  // namespace
}  // namespace lithe::kernels
