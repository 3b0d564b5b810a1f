#include "lithe/kernels/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

Tensor squared(const Tensor& x) {
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, at(x, i) * at(x, i));
  return x;
}

TEST(AdamW, EveryImplementationAgreesWithF64) {
  for (const DType type : {DType::f64, DType::f32})
    for (const bool clear : {false, true})
      for (const int64_t n : kOddSizes)
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " n ", n, clear ? " clear" : "");
          const Tensor start = random_tensor({n}, type, 1), m0 = random_tensor({n}, type, 2),
                       v0 = squared(random_tensor({n}, type, 3));
          const Tensor g = random_tensor({n}, type, 4);
          const Guarded param(start), m(m0), v(v0), gradient(g), shadow(zeros({n}, DType::bf16));
          const double lr = 0.01, b1 = 0.8, b2 = 0.95, eps = 1e-6, decay = 0.1, scale = 0.5;
          const int64_t step = 7;
          adamw({param.tensor(), gradient.tensor(), m.tensor(), v.tensor(), shadow.tensor(), lr, b1, b2, eps, decay,
                 scale, step, clear});
          const Tensor m64 = empty({n}, DType::f64), v64 = empty({n}, DType::f64);
          std::vector<long double> exact;  // rounded to f64 it could be apart by one rounding more than it is
          for (int64_t i = 0; i < n; ++i) {
            const double gi = scale * at(g, i), mi = b1 * at(m0, i) + (1 - b1) * gi,
                         vi = b2 * at(v0, i) + (1 - b2) * gi * gi;
            const double hat_m = mi / (1 - std::pow(b1, step)), hat_v = vi / (1 - std::pow(b2, step));
            set_value(m64, i, mi);
            set_value(v64, i, vi);
            exact.push_back(at(start, i) -
                            (long double)(lr) * (hat_m / (std::sqrt(hat_v) + eps) + decay * at(start, i)));
          }
          const double e = epsilon_of(type);
          expect_close(
              m.tensor(), m64, [&](int64_t i) { return 3 * e * (std::abs(at(m0, i)) + std::abs(at(g, i))); },
              what + " m");
          expect_close(
              v.tensor(), v64, [&](int64_t i) { return 4 * e * at(v64, i); }, what + " v");
          for (int64_t i = 0; i < n; ++i) {
            // The step m / sqrt(v) errs with m, which may cancel, and relatively by a few roundings.
            const double root = std::sqrt(at(v64, i) / (1 - std::pow(b2, step))) + eps;
            const double size = (std::abs(at(m0, i)) + std::abs(at(g, i))) / (1 - std::pow(b1, step)) / root;
            const double bound =
                e * std::abs(double(exact[size_t(i)])) + 10 * e * lr * (size + decay * std::abs(at(start, i)));
            EXPECT_LE(std::abs(double(at(param.tensor(), i) - exact[size_t(i)])), bound) << what << " param " << i;
          }
          expect_same_bits(shadow.tensor(), convert(param.tensor(), DType::bf16), what + " shadow");
          for (int64_t i = 0; i < n; ++i) EXPECT_EQ(at(gradient.tensor(), i), clear ? 0 : at(g, i)) << what;
          for (const Guarded* t : {&param, &m, &v, &gradient, &shadow}) t->expect_untouched(what);
          // The shadow changes nothing else.
          const Tensor p2 = clone(start), m2 = clone(m0), v2 = clone(v0), g2 = clone(g);
          adamw({p2, g2, m2, v2, {}, lr, b1, b2, eps, decay, scale, step, clear});
          expect_same_bits(p2, param.tensor(), what + " without shadow");
        });
}

// oracle: train.adam
TEST(AdamW, FirstStepMovesByTheLearningRate) {
  const double lr = 0.125, eps = 1e-8;
  for (const DType type : {DType::f64, DType::f32})
    on_every_implementation([&](const std::string& isa) {
      const Tensor p = zeros({9}, type), g = random_tensor({9}, type, 5), m = zeros({9}, type), v = zeros({9}, type);
      adamw({p, g, m, v, {}, lr, 0.9, 0.9999, eps});
      for (int64_t i = 0; i < 9; ++i) {
        const double gi = at(g, i);
        EXPECT_NEAR(at(p, i), -lr * gi / (std::abs(gi) + eps), 8 * epsilon_of(type) * lr) << isa;
      }
    });
}

// oracle: train.adam
TEST(AdamW, AConstantGradientGivesAConstantStep) {
  for (const DType type : {DType::f64, DType::f32})
    on_every_implementation([&](const std::string& isa) {
      const double gradients[] = {3, -0.25};
      const Tensor p = zeros({2}, type), g = convert(tensor_of({2}, gradients), type), m = zeros({2}, type),
                   v = zeros({2}, type);
      for (int64_t step = 1; step <= 20; ++step) {
        adamw({p, g, m, v, {}, 0.01, 0.9, 0.99, 1e-12, 0, 1, step});
        // 1 - beta^step loses at most a factor of 1/(1 - beta2) = 100 of the precision.
        for (int64_t i = 0; i < 2; ++i) {
          const double expected = -0.01 * double(step) * gradients[i] / (std::abs(gradients[i]) + 1e-12);
          EXPECT_NEAR(at(p, i), expected, 0.01 * double(step) * 100 * epsilon_of(type))
              << isa << " " << type << " step " << step;
        }
      }
    });
}

// oracle: train.adam
TEST(AdamW, DecayAloneMultiplies) {
  for (const DType type : {DType::f64, DType::f32})
    on_every_implementation([&](const std::string& isa) {
      const Tensor p = random_tensor({17}, type, 6), before = clone(p), g = zeros({17}, type), m = zeros({17}, type),
                   v = zeros({17}, type);
      adamw({p, g, m, v, {}, 0.5, 0.9, 0.999, 1e-8, 0.1});
      for (int64_t i = 0; i < 17; ++i)
        EXPECT_NEAR(at(p, i), at(before, i) * 0.95, 2 * epsilon_of(type) * std::abs(at(before, i))) << isa;
    });
}

// oracle: train.adam
TEST(AdamW, TheGradientScaleClips) {
  // What global-norm clipping does: with scale = 1 / norm the first moment is that of the unit gradient.
  const Tensor g = random_tensor({100}, DType::f32, 7, 3), p = zeros({100}, DType::f32), m = zeros({100}, DType::f32),
               v = zeros({100}, DType::f32);
  const double norm = std::sqrt(sum_of_squares(g));
  adamw({p, g, m, v, {}, 0.1, 0, 0, 1e-8, 0, 1 / norm});
  EXPECT_NEAR(sum_of_squares(m), 1, 1e-6);  // with beta1 = 0, m is the scaled gradient
  for (int64_t i = 0; i < 100; ++i) EXPECT_NEAR(at(m, i) * norm, at(g, i), 1e-5);
}

TEST(AdamW, ThreadsDoNotChangeABit) {
  const int64_t n = 70001;
  Tensor first;
  for (const int count : {1, 2, 3}) {
    const WithThreads with(count);
    const Tensor p = random_tensor({n}, DType::f32, 8), g = random_tensor({n}, DType::f32, 9),
                 m = zeros({n}, DType::f32), v = zeros({n}, DType::f32);
    adamw({p, g, m, v, {}, 0.1, 0.9, 0.999, 1e-8, 0.1});
    if (!first) first = p;
    expect_same_bits(p, first, cat(count, " threads"));
  }
}

TEST(AdamW, RefusesWhatDoesNotFit) {
  const Tensor p = zeros({4}, DType::f32), three = zeros({3}, DType::f32);
  try {
    adamw({p, three, p, p, {}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "adamw: gradient must have the shape, dtype and device of param f32[4], got gradient f32[3]");
  }
}

TEST(SumOfSquares, AgreesWithF64AndDoesNotDependOnThreads) {
  for (const DType type : kTypes)
    for (const int64_t n : {int64_t(1), int64_t(63), int64_t(65), int64_t(1000), int64_t(65536), int64_t(200001)}) {
      const Tensor x = random_tensor({n}, type, 10, 100);
      double exact = 0;
      for (int64_t i = 0; i < n; ++i) exact += at(x, i) * at(x, i);
      on_every_implementation([&](const std::string& isa) {
        const double once = sum_of_squares(x);
        EXPECT_NEAR(once, exact, double(n) * 0x1p-53 * exact) << isa << " " << type << " n " << n;
        for (const int count : {1, 3}) {
          const WithThreads with(count);
          EXPECT_EQ(sum_of_squares(x), once) << isa << " on " << count << " threads";
        }
      });
    }
}

TEST(AllFinite, FindsOneBrokenElementAnywhere) {
  const int64_t n = 50003;
  for (const DType type : kTypes)
    on_every_implementation([&](const std::string& isa) {
      const Tensor x = random_tensor({n}, type, 11);
      EXPECT_TRUE(all_finite(x)) << isa;
      set_value(x, 5, 3e38);
      EXPECT_TRUE(all_finite(x)) << isa;
      for (const double broken : {double(INFINITY), double(-INFINITY), double(NAN)})
        for (const int64_t i : {int64_t(0), int64_t(17), int64_t(40000), n - 1}) {
          const double kept = at(x, i);
          set_value(x, i, broken);
          EXPECT_FALSE(all_finite(x)) << isa << " " << type << " element " << i << " = " << broken;
          EXPECT_FALSE(std::isfinite(sum_of_squares(x))) << isa;
          set_value(x, i, kept);
        }
      EXPECT_TRUE(all_finite(x)) << isa;
    });
}

}  // namespace
}  // namespace lithe::kernels
