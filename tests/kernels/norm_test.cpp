#include "lithe/kernels/norm/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/kernels/elementwise/elementwise.h"
#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

constexpr NormKind kNorms[] = {NormKind::layer_sigma, NormKind::layer_variance, NormKind::rms};
const char* name(NormKind kind) {
  static const char* names[] = {"layer_sigma", "layer_variance", "rms"};
  return names[int(kind)];
}

Tensor ones(int64_t n, DType type) {
  const Tensor t = empty({n}, type);
  for (int64_t i = 0; i < n; ++i) set_value(t, i, 1);
  return t;
}

// oracle: norm.layer
TEST(LayerNorm, GivesTheWorkedExample) {
  const double rows[] = {1, 1, 2, .9, .9, 0, .7, .8, 0, 3, 1, 7};
  const double expected[] = {-0.583358, -0.583358, 1.166716,  0.572231,  0.572231,  -1.144461,
                             0.438690,  0.658035,  -1.096725, -0.256960, -1.027840, 1.284800};
  const Tensor x = tensor_of({4, 3}, rows);
  for (const DType type : {DType::f64, DType::f32})
    on_every_implementation([&](const std::string& isa) {
      const Tensor y = empty({4, 3}, type), mean = empty({4}, type), scale = empty({4}, type);
      norm({NormKind::layer_sigma, convert(x, type), {}, {}, ones(3, type), zeros({3}, type), y, mean, scale, 0.1});
      expect_close(y, tensor_of({4, 3}, expected), 6e-7 + 4 * epsilon_of(type), isa);
      const double means[] = {4.0 / 3, 0.6, 0.5, 11.0 / 3}, sigmas[] = {.471, .424, .356, 2.494};
      expect_close(mean, tensor_of({4}, means), 1e-6, isa);
      for (int64_t n = 0; n < 4; ++n) EXPECT_NEAR(1 / at(scale, n) - 0.1, sigmas[n], 5e-4) << isa;
      // The other reading of epsilon is distinguishable.
      norm({NormKind::layer_variance, convert(x, type), {}, {}, ones(3, type), zeros({3}, type), y, {}, {}, 0.1});
      const double variance_mode[] = {-0.587220, -0.587220, 1.174440};
      expect_close(y.slice(0, 1), tensor_of({1, 3}, variance_mode), 6e-7 + 4 * epsilon_of(type), isa);
    });
}

// oracle: norm.layer
TEST(LayerNorm, IgnoresShiftsAndScalesAndSendsAConstantRowToTheBias) {
  const int64_t C = 33;
  const Tensor x = random_tensor({2, C}, DType::f64, 1), weight = random_tensor({C}, DType::f64, 2),
               bias = random_tensor({C}, DType::f64, 3);
  const Tensor y = empty_like(x), z = empty_like(x), moved = clone(x);
  for (const NormKind kind : {NormKind::layer_sigma, NormKind::layer_variance}) {
    norm({kind, x, {}, {}, weight, bias, y, {}, {}, 1e-14});
    for (int64_t i = 0; i < x.numel(); ++i) set_value(moved, i, at(x, i) + 5);
    norm({kind, moved, {}, {}, weight, bias, z, {}, {}, 1e-14});
    expect_close(z, y, 1e-12, "shifted");
    for (int64_t i = 0; i < x.numel(); ++i) set_value(moved, i, at(x, i) * 7);
    norm({kind, moved, {}, {}, weight, bias, z, {}, {}, 1e-14});
    expect_close(z, y, 1e-12, "scaled");
    for (int64_t i = 0; i < x.numel(); ++i) set_value(moved, i, 0.25);
    norm({kind, moved, {}, {}, weight, bias, z});
    expect_close(z.slice(1, 2), bias.reshape({1, C}), 0, "constant row");
  }
}

// oracle: norm.rms
TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  const double row[] = {3, -4, 0, 5}, w[] = {1, 2, 3, -1};
  const Tensor x = tensor_of({1, 4}, row), weight = tensor_of({4}, w);
  // mean of squares 12.5, so with eps 0.5 the divisor is sqrt(13)
  const double expected[] = {3 / std::sqrt(13.0), -8 / std::sqrt(13.0), 0, -5 / std::sqrt(13.0)};
  for (const DType type : {DType::f64, DType::f32})
    on_every_implementation([&](const std::string& isa) {
      const Tensor y = empty({1, 4}, type), scale = empty({1}, type);
      norm({NormKind::rms, convert(x, type), {}, {}, convert(weight, type), {}, y, {}, scale, 0.5});
      expect_close(y, tensor_of({1, 4}, expected), 12 * epsilon_of(type), isa);
      EXPECT_NEAR(at(scale, 0), 1 / std::sqrt(13.0), 2 * epsilon_of(type)) << isa;
    });
}

struct Inputs {
  Tensor x, residual, weight, bias;
};

// For f32 and bf16: the mean of C terms errs by C eps of the mean size, which moves every h = x - mean; the
// scale errs by (C + 4) eps relatively. The exact result is computed from the sum as stored.
TEST(Norm, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const NormKind kind : kNorms)
      for (const bool fused : {false, true})
        for (const int64_t C : kOddSizes) {
          const int64_t N = 4;
          const Inputs in{random_tensor({N, C}, type, 4, 2), fused ? random_tensor({N, C}, type, 5) : Tensor(),
                          random_tensor({C}, wide(type), 6), C % 2 ? random_tensor({C}, wide(type), 7) : Tensor()};
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", name(kind), " ", type, " C ", C, fused ? " with residual" : "");
            const Guarded y(random_tensor({N, C}, type, 8)), sum(fused ? in.residual : in.x);
            const Tensor mean = empty({N}, wide(type)), scale = empty({N}, wide(type));
            norm({kind, in.x, fused ? sum.tensor() : Tensor(), fused ? sum.tensor() : Tensor(), in.weight, in.bias,
                  y.tensor(), mean, scale});
            Tensor z = in.x;
            if (fused) {
              z = empty_like(in.x);
              add({in.x, in.residual, z});
              expect_same_bits(sum.tensor(), z, what + " sum");
            }
            double largest = 0;
            for (int64_t i = 0; i < z.numel(); ++i) largest = std::max(largest, std::abs(at(z, i)));
            const Tensor exact = empty({N, C}, DType::f64), mean64 = empty({N}, DType::f64),
                         scale64 = empty({N}, DType::f64);
            norm({kind,
                  convert(z, DType::f64),
                  {},
                  {},
                  convert(in.weight, DType::f64),
                  in.bias ? convert(in.bias, DType::f64) : Tensor(),
                  exact,
                  mean64,
                  scale64});
            const double eps = double(C + 8) * arithmetic(type);
            expect_close(
                y.tensor(), exact,
                [&](int64_t i) {
                  const double w = std::abs(at(in.weight, i % C)), r = at(scale64, i / C),
                               shift = kind == NormKind::rms ? 0 : largest;
                  return epsilon_of(type) * std::abs(at(exact, i)) +
                         eps * w * r * (std::abs(at(z, i)) + 2 * shift) * (1 + r * shift) +
                         arithmetic(type) * (in.bias ? std::abs(at(in.bias, i % C)) : 0);
                },
                what);
            if (kind != NormKind::rms) expect_close(mean, mean64, eps * largest, what + " mean");
            expect_close(
                scale, scale64, [&](int64_t n) { return eps * at(scale64, n) * (1 + at(scale64, n) * largest); },
                what + " scale");
            y.expect_untouched(what);
            sum.expect_untouched(what);
            if (fused) return;
            const Tensor in_place = clone(in.x);
            norm({kind, in_place, {}, {}, in.weight, in.bias, in_place});
            expect_same_bits(in_place, y.tensor(), what + " in place");
          });
        }
}

TEST(NormGrad, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const NormKind kind : kNorms)
      for (const bool accumulate : {false, true})
        for (const int64_t C : {int64_t(3), int64_t(17), int64_t(64), int64_t(65), int64_t(1000)}) {
          const int64_t N = 9;
          const Tensor x = random_tensor({N, C}, type, 9, 2), dy = random_tensor({N, C}, type, 10),
                       weight = random_tensor({C}, wide(type), 11);
          const Tensor old_dx = random_tensor({N, C}, type, 12), old = random_tensor({C}, wide(type), 13);
          // The statistics in f64 from x, rounded to what is kept: so all implementations start from the same.
          const Tensor mean64 = empty({N}, DType::f64), scale64 = empty({N}, DType::f64),
                       y64 = empty({N, C}, DType::f64);
          const Tensor x64 = convert(x, DType::f64), weight64 = convert(weight, DType::f64);
          norm({kind, x64, {}, {}, weight64, {}, y64, mean64, scale64});
          const Tensor mean = convert(mean64, wide(type)), scale = convert(scale64, wide(type));
          const Tensor dx64 = convert(old_dx, DType::f64), dweight64 = convert(old, DType::f64),
                       dbias64 = convert(old, DType::f64);
          const Tensor stat_mean = kind == NormKind::rms ? Tensor() : convert(mean, DType::f64);
          norm_grad({kind, x64, weight64, stat_mean, convert(scale, DType::f64), convert(dy, DType::f64), dx64,
                     dweight64, dbias64, 1e-5, accumulate});
          // Sizes of the terms: r |g|, and h k times the sum of |g h| / C.
          const Tensor dx_size = zeros({N, C}, DType::f64), column_size = zeros({C}, DType::f64);
          for (int64_t n = 0; n < N; ++n) {
            const double r = at(scale, n), m = kind == NormKind::rms ? 0 : at(mean, n);
            double g_sum = 0, dot = 0;
            for (int64_t c = 0; c < C; ++c) {
              const double g = std::abs(at(weight, c) * at(dy, n * C + c)),
                           h = std::abs(at(x, n * C + c)) + std::abs(m);
              g_sum += g;
              dot += g * h;
              set_value(column_size, c, at(column_size, c) + std::abs(at(dy, n * C + c)) * (1 + h * r));
            }
            for (int64_t c = 0; c < C; ++c) {
              const double g = std::abs(at(weight, c) * at(dy, n * C + c)),
                           h = std::abs(at(x, n * C + c)) + std::abs(m);
              set_value(dx_size, n * C + c,
                        r * (g + g_sum / double(C)) +
                            r * r * r * h * dot / double(C) * (kind == NormKind::layer_sigma ? 2 : 1));
            }
          }
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", name(kind), " ", type, " C ", C, accumulate ? " accumulate" : "");
            const Guarded dx(old_dx), dweight(old), dbias(old);
            const Tensor kept_mean = kind == NormKind::rms ? Tensor() : mean;
            norm_grad({kind, x, weight, kept_mean, scale, dy, dx.tensor(), dweight.tensor(), dbias.tensor(), 1e-5,
                       accumulate});
            expect_close(
                dx.tensor(), dx64,
                [&](int64_t i) {
                  return epsilon_of(type) * std::abs(at(dx64, i)) +
                         double(C + 8) * arithmetic(type) * (at(dx_size, i) + std::abs(at(old_dx, i)));
                },
                what + " dx");
            const auto column_bound = [&](int64_t c) {
              return double(N + 4) * arithmetic(type) * (at(column_size, c) + std::abs(at(old, c)));
            };
            expect_close(dweight.tensor(), dweight64, column_bound, what + " dweight");
            expect_close(dbias.tensor(), dbias64, column_bound, what + " dbias");
            dx.expect_untouched(what);
            dweight.expect_untouched(what);
            dbias.expect_untouched(what);
            if (accumulate) return;
            const Tensor in_place = clone(dy), alone = clone(old);
            norm_grad({kind, x, weight, kept_mean, scale, in_place, in_place, {}, {}});
            expect_same_bits(in_place, dx.tensor(), what + " dx into dy");
            norm_grad({kind, x, weight, kept_mean, scale, dy, {}, alone, {}});
            expect_same_bits(alone, dweight.tensor(), what + " dweight alone");
          });
        }
}

// oracle: norm.layer, norm.rms
TEST(NormGrad, MatchesCentralDifferences) {
  for (const NormKind kind : kNorms) {
    const int64_t N = 3, C = 5;
    const Tensor x = random_tensor({N, C}, DType::f64, 14), weight = random_tensor({C}, DType::f64, 15),
                 bias = random_tensor({C}, DType::f64, 16);
    const Tensor dy = random_tensor({N, C}, DType::f64, 17), y = empty_like(x), mean = empty({N}, DType::f64),
                 scale = empty({N}, DType::f64);
    const auto value = [&] {
      norm({kind, x, {}, {}, weight, bias, y, mean, scale, 0.1});
      double sum = 0;
      for (int64_t i = 0; i < y.numel(); ++i) sum += at(y, i) * at(dy, i);
      return sum;
    };
    value();
    const Tensor dx = empty_like(x), dweight = zeros({C}, DType::f64), dbias = zeros({C}, DType::f64);
    norm_grad({kind, x, weight, mean, scale, dy, dx, dweight, dbias, 0.1});
    if (kind != NormKind::rms)  // the gradient of a row has no component along a shift
      for (int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (int64_t c = 0; c < C; ++c) sum += at(dx, n * C + c);
        EXPECT_NEAR(sum, 0, 1e-14) << name(kind);
      }
    expect_gradient(dx, x, value, cat(name(kind), " dx"));
    expect_gradient(dweight, weight, value, cat(name(kind), " dweight"));
    expect_gradient(dbias, bias, value, cat(name(kind), " dbias"));
  }
}

TEST(NormGrad, OfAConstantRowIsFinite) {
  const Tensor x = zeros({1, 8}, DType::f32), dy = random_tensor({1, 8}, DType::f32, 18), weight = ones(8, DType::f32);
  on_every_implementation([&](const std::string& isa) {
    const Tensor y = empty({1, 8}, DType::f32), mean = empty({1}, DType::f32), scale = empty({1}, DType::f32),
                 dx = empty({1, 8}, DType::f32);
    norm({NormKind::layer_sigma, x, {}, {}, weight, {}, y, mean, scale, 1e-5});
    norm_grad({NormKind::layer_sigma, x, weight, mean, scale, dy, dx, {}, {}, 1e-5});
    double mean_dy = 0;
    for (int64_t i = 0; i < 8; ++i) mean_dy += at(dy, i) / 8;
    for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(at(dx, i), 1e5 * (at(dy, i) - mean_dy), 0.1) << isa;
  });
}

TEST(Norm, RowsDoNotDependOnTheBatchNorOnThreads) {
  const int64_t N = 500, C = 130;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor x = random_tensor({N, C}, type, 19), weight = random_tensor({C}, DType::f32, 20),
                 dy = random_tensor({N, C}, type, 21);
    for (const NormKind kind : kNorms) {
      const Tensor y = empty_like(x), mean = empty({N}, DType::f32), scale = empty({N}, DType::f32), dx = empty_like(x);
      norm({kind, x, {}, {}, weight, {}, y, mean, scale});
      norm_grad({kind, x, weight, mean, scale, dy, dx, {}, {}});
      for (const int count : {1, 3}) {
        const WithThreads with(count);
        const Tensor y1 = empty({1, C}, type), mean1 = empty({1}, DType::f32), scale1 = empty({1}, DType::f32),
                     dx1 = empty({1, C}, type);
        for (const int64_t n : {int64_t(0), int64_t(251), N - 1}) {
          norm({kind, x.slice(n, n + 1), {}, {}, weight, {}, y1, mean1, scale1});
          norm_grad({kind, x.slice(n, n + 1), weight, mean1, scale1, dy.slice(n, n + 1), dx1, {}, {}});
          expect_same_bits(y1, y.slice(n, n + 1), cat(name(kind), " row ", n));
          expect_same_bits(dx1, dx.slice(n, n + 1), cat(name(kind), " dx row ", n));
        }
        const Tensor a = zeros({C}, DType::f32), b = zeros({C}, DType::f32);
        norm_grad({kind, x, weight, mean, scale, dy, {}, a, {}});
        norm_grad({kind, x, weight, mean, scale, dy, {}, b, {}});
        expect_same_bits(b, a, "dweight again");
      }
    }
  }
}

TEST(Norm, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({2, 4}, DType::f32), y = empty_like(x);
  const auto message = [](auto&& f) {
    try {
      f();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message([&] {
              norm({NormKind::rms, x, {}, {}, ones(3, DType::f32), {}, y});
            }),
            "rms_norm: weight must be f32[4] to match x f32[2,4], got weight f32[3]");
  EXPECT_EQ(message([&] {
              norm({NormKind::layer_sigma, x, {}, y, ones(4, DType::f32), {}, y});
            }),
            "layer_norm: sum is only written when there is a residual; leave it out");
  EXPECT_EQ(message([&] {
              norm_grad({NormKind::layer_sigma, x, ones(4, DType::f32), {}, ones(2, DType::f32), x, y, {}, {}});
            }),
            "layer_norm_grad: needs the scale and, for layer norms, the mean that the forward pass kept");
}

}  // namespace
}  // namespace lithe::kernels
