// Sums, products, row scaling and dropout.
#include "lithe/kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

TEST(Add, MixesTypesAndCasts) {
  for (const DType a_type : kTypes)
    for (const DType b_type : kTypes)
      for (const DType out_type : kTypes)
        for (const int64_t n : kOddSizes) {
          const Tensor a = random_tensor({n}, a_type, 1), b = random_tensor({n}, b_type, 2);
          const double alpha = 0.75, beta = -1.5;
          const bool all_f64 = a_type == DType::f64 || b_type == DType::f64 || out_type == DType::f64;
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", a_type, "+", b_type, "->", out_type, " n ", n);
            const Guarded out(random_tensor({n}, out_type, 3)), cast(random_tensor({n}, out_type, 4));
            add({a, b, out.tensor(), alpha, beta});
            add({a, {}, cast.tensor()});
            const Tensor exact = empty({n}, DType::f64);
            for (int64_t i = 0; i < n; ++i) set_value(exact, i, alpha * at(a, i) + beta * at(b, i));
            expect_close(
                out.tensor(), exact,
                [&](int64_t i) {
                  return epsilon_of(out_type) * std::abs(at(exact, i)) +
                         2 * (all_f64 ? 0x1p-53 : kF32) * (std::abs(alpha * at(a, i)) + std::abs(beta * at(b, i)));
                },
                what);
            expect_same_bits(cast.tensor(), convert(a, out_type), what + " cast");
            out.expect_untouched(what);
            cast.expect_untouched(what);
          });
        }
}

// Rows of a batch stand anywhere: an element has the same bits in a whole vector and in the rest of one.
TEST(Add, HasTheSameBitsAtAnyPlace) {
  constexpr int64_t n = 96;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor a = random_tensor({n}, type, 1), b = random_tensor({n}, type, 2);
    on_every_implementation([&](const std::string& isa) {
      for (const double alpha : {1.0, 0.7}) {
        const Tensor whole = empty({n}, DType::f32);
        add({a, b, whole, alpha, 0.3});
        for (int64_t begin = 0; begin < n; ++begin)
          for (const int64_t count : {1, 5, 13}) {
            if (begin + count > n) continue;
            const Tensor part = empty({count}, DType::f32);
            add({a.slice(begin, begin + count), b.slice(begin, begin + count), part, alpha, 0.3});
            expect_same_bits(part, whole.slice(begin, begin + count), cat(isa, " ", type, " from ", begin));
          }
      }
    });
  }
}

TEST(Add, IsCompleteWhenTheRuntimeGivesFewerThreads) {
  const WithThreads four(4);
  const int64_t n = 1 << 16;
  const Tensor a = random_tensor({n}, DType::f32, 1);
  on_every_implementation([&](const std::string& isa) {
    const Tensor out = random_tensor({n}, DType::f32, 2);
#pragma omp teams num_teams(1) thread_limit(1)
    add({a, {}, out});
    expect_same_bits(out, a, isa);
  });
}

TEST(Add, RoundsBf16ToNearestEvenAndKeepsNaN) {
  const float in[] = {1.00390625f, 1.01171875f, 1.00391f, -1.00390625f, 3.3961775e38f,
                      INFINITY,    NAN,         0.0f,     -0.0f,        1.5e-38f};
  const Tensor x = tensor_of({10}, in);
  on_every_implementation([&](const std::string& isa) {
    const Tensor y = empty({10}, DType::bf16);
    add({x, {}, y});
    const double expected[] = {1.0, 1.015625, 1.0078125, -1.0, INFINITY, INFINITY, NAN, 0, -0.0, 1.5e-38};
    for (int64_t i = 0; i < 9; ++i) {
      if (i == 6)
        EXPECT_TRUE(std::isnan(at(y, i))) << isa;
      else
        EXPECT_EQ(at(y, i), expected[i]) << isa << " element " << i;
    }
    EXPECT_NEAR(at(y, 9), 1.5e-38, 0x1p-8 * 1.5e-38) << isa;
  });
}

TEST(Mul, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const bool accumulate : {false, true})
      for (const int64_t n : kOddSizes) {
        const Tensor a = random_tensor({n}, type, 5), b = random_tensor({n}, type, 6),
                     old = random_tensor({n}, type, 7);
        const Tensor exact = empty({n}, DType::f64);
        for (int64_t i = 0; i < n; ++i) set_value(exact, i, at(a, i) * at(b, i) + (accumulate ? at(old, i) : 0));
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " n ", n, accumulate ? " accumulate" : "");
          const Guarded out(old);
          mul({a, b, out.tensor(), accumulate});
          expect_close(
              out.tensor(), exact,
              [&](int64_t i) {
                return epsilon_of(type) * std::abs(at(exact, i)) +
                       2 * arithmetic(type) * (std::abs(at(a, i) * at(b, i)) + std::abs(at(old, i)));
              },
              what);
          out.expect_untouched(what);
          if (accumulate) return;
          const Tensor in_place = clone(b);
          mul({a, in_place, in_place});
          expect_same_bits(in_place, out.tensor(), what + " in place");
        });
      }
}

TEST(RowAffine, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const int form : {1, 2, 3})  // scale, shift, both
      for (const int64_t C : kOddSizes) {
        const int64_t repeat = C < 100 ? 3 : 1;
        const Tensor x = random_tensor({2, repeat * C}, type, 8);
        const Tensor scale = form & 1 ? random_tensor({C}, wide(type), 9) : Tensor(),
                     shift = form & 2 ? random_tensor({C}, wide(type), 10) : Tensor();
        const Tensor exact = empty(x.shape(), DType::f64);
        for (int64_t i = 0; i < x.numel(); ++i)
          set_value(exact, i, at(x, i) * (scale ? at(scale, i % C) : 1) + (shift ? at(shift, i % C) : 0));
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " C ", C, " form ", form);
          const Guarded out(x);
          row_affine({out.tensor(), scale, shift, out.tensor()});
          expect_close(
              out.tensor(), exact,
              [&](int64_t i) {
                return epsilon_of(type) * std::abs(at(exact, i)) +
                       2 * arithmetic(type) *
                           (std::abs(at(x, i)) * (scale ? std::abs(at(scale, i % C)) : 1) +
                            (shift ? std::abs(at(shift, i % C)) : 0));
              },
              what);
          out.expect_untouched(what);
        });
      }
}

TEST(RowAffineGrad, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const bool accumulate : {false, true})
      for (const bool with_scale : {false, true})
        for (const int64_t C : kOddSizes) {
          const int64_t rows = 40, repeat = C < 100 ? 2 : 1, total = rows * repeat;
          const Tensor x = random_tensor({rows, repeat * C}, type, 14),
                       dy = random_tensor({rows, repeat * C}, type, 15);
          const Tensor scale = with_scale ? random_tensor({C}, wide(type), 16) : Tensor(),
                       old = random_tensor({C}, wide(type), 17);
          const Tensor old_dx = random_tensor(x.shape(), type, 18);
          Tensor dscale64 = convert(old, DType::f64), dshift64 = convert(old, DType::f64),
                 size = zeros({C}, DType::f64);
          for (int64_t i = 0; i < x.numel(); ++i) {
            set_value(dscale64, i % C, at(dscale64, i % C) + at(x, i) * at(dy, i));
            set_value(dshift64, i % C, at(dshift64, i % C) + at(dy, i));
            set_value(size, i % C, at(size, i % C) + std::abs(at(dy, i)) * (1 + std::abs(at(x, i))));
          }
          on_every_implementation([&](const std::string& isa) {
            const std::string what =
                cat(isa, " ", type, " C ", C, with_scale ? " scale" : "", accumulate ? " accumulate" : "");
            const Tensor dx = clone(old_dx);
            const Guarded dscale(old), dshift(old);
            row_affine_grad({x, scale, dy, dx, dscale.tensor(), dshift.tensor(), accumulate});
            // Any order of adding n terms errs by at most n eps times the sum of their sizes.
            const auto bound = [&](int64_t c) {
              return double(total + 2) * arithmetic(type) * (at(size, c) + std::abs(at(old, c)));
            };
            expect_close(dscale.tensor(), dscale64, bound, what + " dscale");
            expect_close(dshift.tensor(), dshift64, bound, what + " dshift");
            dscale.expect_untouched(what);
            const Tensor exact = empty(x.shape(), DType::f64);
            for (int64_t i = 0; i < x.numel(); ++i)
              set_value(exact, i, at(dy, i) * (with_scale ? at(scale, i % C) : 1) + (accumulate ? at(old_dx, i) : 0));
            expect_close(
                dx, exact,
                [&](int64_t i) {
                  return epsilon_of(type) * std::abs(at(exact, i)) +
                         2 * arithmetic(type) *
                             (std::abs(at(dy, i)) * (with_scale ? std::abs(at(scale, i % C)) : 1) +
                              std::abs(at(old_dx, i)));
                },
                what + " dx");
            // In place, and each output alone, gives the same.
            if (accumulate) return;
            const Tensor in_place = clone(dy), alone = clone(old);
            row_affine_grad({x, scale, in_place, in_place, alone, {}});
            expect_same_bits(in_place, dx, what + " dx into dy");
            expect_same_bits(alone, dscale.tensor(), what + " dscale alone");
            const Tensor shift_alone = clone(old);
            row_affine_grad({{}, {}, dy, {}, {}, shift_alone});
            expect_same_bits(shift_alone, dshift.tensor(), what + " dshift alone");
          });
        }
}

TEST(RowAffineGrad, MatchesCentralDifferences) {
  const Tensor x = random_tensor({3, 4}, DType::f64, 19), scale = random_tensor({2}, DType::f64, 20),
               shift = random_tensor({2}, DType::f64, 21);
  const Tensor dy = random_tensor({3, 4}, DType::f64, 22), y = empty_like(x), dx = empty_like(x);
  const Tensor dscale = zeros({2}, DType::f64), dshift = zeros({2}, DType::f64);
  row_affine_grad({x, scale, dy, dx, dscale, dshift});
  const auto value = [&] {
    row_affine({x, scale, shift, y});
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += at(y, i) * at(dy, i);
    return sum;
  };
  expect_gradient(dx, x, value, "dx");
  expect_gradient(dscale, scale, value, "dscale");
  expect_gradient(dshift, shift, value, "dshift");
}

TEST(Dropout, DrawsWordIOfTheStreamForElementI) {
  const RandomKey key{.seed = 5, .step = (uint64_t(1) << 33) + 7, .layer = 3, .purpose = purpose_of("dropout.test")};
  for (const DType type : kTypes)
    for (const double p : {0.0, 0.1, 0.5, 0.9999})
      for (const int64_t n : {int64_t(1), int64_t(3), int64_t(17), int64_t(65), int64_t(5003)})
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " p ", p, " n ", n);
          const Tensor x = random_tensor({n}, type, 23), exact = zeros({n}, DType::f64);
          for (int64_t i = 0; i < n; ++i)
            if (double(random_block(key, uint64_t(i) / 4)[size_t(i % 4)]) >= p * 0x1p32)
              set_value(exact, i, at(x, i) / (1 - p));
          const Guarded y(random_tensor({n}, type, 24));
          dropout({x, y.tensor(), p, key});
          const auto bound = [&](int64_t i) {
            return (epsilon_of(type) + 2 * arithmetic(type)) * std::abs(at(exact, i));
          };
          expect_close(y.tensor(), exact, bound, what);
          y.expect_untouched(what);
          const Tensor twice = clone(y.tensor());
          dropout({x, twice, p, key, true});
          expect_close(
              twice, exact, [&](int64_t i) { return 3 * bound(i) + std::abs(at(exact, i)); }, what + " accumulated");
          for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(at(twice, i), 2 * at(y.tensor(), i), 3 * bound(i)) << what;
        });
}

TEST(Dropout, KeepsTheMean) {
  const int64_t n = 200000;
  const Tensor x = zeros({n}, DType::f32), y = empty_like(x);
  for (int64_t i = 0; i < n; ++i) set_value(x, i, 1);
  dropout({x, y, 0.3, {.seed = 9}});
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += at(y, i);
  // The mean of n draws of 1/(1-p) with probability 1-p has deviation sqrt(p/(1-p)/n); 5 deviations.
  EXPECT_NEAR(sum / double(n), 1, 5 * std::sqrt(0.3 / 0.7 / double(n)));
}

TEST(Elementwise, ThreadsDoNotChangeABit) {
  const int64_t n = 300, C = 257;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor x = random_tensor({n, C}, type, 25), b = random_tensor({n, C}, type, 26),
                 bias = random_tensor({C}, DType::f32, 27);
    std::vector<Tensor> first;
    for (const int count : {1, 2, 3}) {
      const WithThreads with(count);
      std::vector<Tensor> results;
      const auto fresh = [&] { return results.emplace_back(empty_like(x)); };
      activation({Activation::gelu, x, bias, fresh()});
      activation_grad({Activation::gelu, x, bias, b, fresh()});
      gated({Activation::silu, x, b, fresh()});
      add({x, b, fresh()});
      mul({x, b, fresh()});
      row_affine({x, bias, bias, fresh()});
      row_affine_grad({x, bias, b, fresh(), {}, {}});
      dropout({x, fresh(), 0.4, {.seed = 28}});
      if (first.empty()) first = results;
      for (size_t i = 0; i < results.size(); ++i)
        expect_same_bits(results[i], first[i], cat(type, " operation ", i, " on ", count, " threads"));
    }
  }
}

TEST(RowAffineGrad, ColumnSumsRepeatForAThreadCount) {
  const Tensor x = random_tensor({700, 65}, DType::f32, 29), dy = random_tensor({700, 65}, DType::f32, 30);
  for (const int count : {1, 2, 3}) {
    const WithThreads with(count);
    const Tensor a = zeros({65}, DType::f32), b = zeros({65}, DType::f32), c = zeros({65}, DType::f32),
                 d = zeros({65}, DType::f32);
    row_affine_grad({x, {}, dy, {}, a, b});
    row_affine_grad({x, {}, dy, {}, c, d});
    expect_same_bits(c, a, "dscale");
    expect_same_bits(d, b, "dshift");
  }
}

TEST(Elementwise, RefusesWhatDoesNotFit) {
  const auto message = [](auto&& f) {
    try {
      f();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const Tensor x = zeros({2, 6}, DType::f32);
  EXPECT_EQ(message([&] {
              row_affine({x, zeros({4}, DType::f32), {}, x});
            }),
            "row_affine: scale must divide the 6 columns of x [2,6], got [4]");
  EXPECT_EQ(message([&] {
              row_affine({x, {}, {}, x});
            }),
            "row_affine: needs scale or shift, got neither; add() copies");
  EXPECT_EQ(message([&] { dropout({x, x, 1.0, {}}); }), "dropout: p must be in [0, 1), got 1");
  EXPECT_EQ(message([&] {
              add({x, zeros({12}, DType::f32), x});
            }),
            "add: b must have the shape and device of a f32[2,6], got b f32[12]");
  EXPECT_EQ(message([&] {
              mul({x, zeros({2, 6}, DType::bf16), x});
            }),
            "mul: b must have the shape, dtype and device of a f32[2,6], got b bf16[2,6]");
}

}  // namespace
}  // namespace lithe::kernels
