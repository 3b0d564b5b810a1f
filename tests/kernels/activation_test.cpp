// Activations and gated products: known values, gradients by differences, every implementation within the
// rounding of its arithmetic.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "lithe/kernels/elementwise/elementwise.h"
#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

constexpr Activation kActivations[] = {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                       Activation::tanh};
const char* name(Activation kind) {
  static const char* names[] = {"relu", "gelu", "gelu_tanh", "silu", "tanh"};
  return names[int(kind)];
}

double activate_f64(Activation kind, double x) {
  const double in[] = {x};
  const Tensor t = tensor_of({1}, in), y = empty_like(t);
  activation({kind, t, {}, y});
  return value_at(y, 0);
}

// oracle: ffn.relu, ffn.gelu, ffn.swiglu
TEST(Activation, HasItsKnownValues) {
  // Phi(1) = 0.8413447460685429, sigma(1) = 0.7310585786300049; the tanh form from its definition.
  EXPECT_EQ(activate_f64(Activation::relu, -2.5), 0);
  EXPECT_EQ(activate_f64(Activation::relu, 2.5), 2.5);
  EXPECT_NEAR(activate_f64(Activation::gelu, 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(activate_f64(Activation::gelu, -1), -0.15865525393145707, 1e-15);
  EXPECT_NEAR(activate_f64(Activation::gelu, -10), -7.619853024160525e-23, 1e-36);
  EXPECT_NEAR(activate_f64(Activation::gelu_tanh, 1), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(activate_f64(Activation::gelu_tanh, -1), -0.15880800939172324, 1e-15);
  EXPECT_NEAR(activate_f64(Activation::silu, 1), 0.7310585786300049, 1e-15);
  EXPECT_NEAR(activate_f64(Activation::silu, -2), -0.2384058440442351, 1e-15);
  EXPECT_NEAR(activate_f64(Activation::tanh, 0.5), 0.46211715726000976, 1e-15);
}

// |x| eps for the rounding of the sum with the bias, and a few units in the last place of the function.
TEST(Activation, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const Activation kind : kActivations)
      for (const bool with_bias : {false, true})
        for (const int64_t C : kOddSizes) {
          const Tensor x = random_tensor({3, C}, type, 11, 3),
                       bias = with_bias ? random_tensor({C}, wide(type), 12) : Tensor();
          const Tensor exact = empty({3, C}, DType::f64), z = clone(convert(x, DType::f64));
          for (int64_t i = 0; with_bias && i < z.numel(); ++i) set_value(z, i, value_at(z, i) + value_at(bias, i % C));
          activation({kind, z, {}, exact});
          const auto bound = [&](int64_t i) {
            return epsilon_of(type) * std::abs(value_at(exact, i)) +
                   8 * arithmetic(type) * (std::abs(value_at(x, i)) + 1);
          };
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", name(kind), " ", type, " C ", C, with_bias ? " bias" : "");
            Guarded y(random_tensor({3, C}, type, 13));
            activation({kind, x, bias, y.tensor()});
            expect_close(y.tensor(), exact, bound, what);
            y.expect_untouched(what);
            const Tensor in_place = clone(x);
            activation({kind, in_place, bias, in_place});
            expect_same_bits(in_place, y.tensor(), what + " in place");
          });
        }
}

TEST(ActivationGrad, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const Activation kind : kActivations)
      for (const bool with_bias : {false, true})
        for (const bool accumulate : {false, true})
          for (const int64_t C : kOddSizes) {
            const Tensor x = random_tensor({3, C}, type, 21, 3), dy = random_tensor({3, C}, type, 22),
                         old = random_tensor({3, C}, type, 24);
            const Tensor bias = with_bias ? random_tensor({C}, wide(type), 23) : Tensor();
            const Tensor exact = accumulate ? convert(old, DType::f64) : empty({3, C}, DType::f64),
                         z = clone(convert(x, DType::f64));
            for (int64_t i = 0; with_bias && i < z.numel(); ++i)
              set_value(z, i, value_at(z, i) + value_at(bias, i % C));
            activation_grad({kind, z, {}, convert(dy, DType::f64), exact, accumulate});
            const auto bound = [&](int64_t i) {
              // relu's slope jumps at 0, where the rounding of x + bias may choose the side.
              if (kind == Activation::relu && std::abs(value_at(z, i)) < 4 * arithmetic(type))
                return 2 * std::abs(value_at(dy, i));
              const double sizes = (std::abs(value_at(x, i)) + 4) * std::abs(value_at(dy, i)) +
                                   (accumulate ? std::abs(value_at(old, i)) : 0);
              return epsilon_of(type) * std::abs(value_at(exact, i)) + 4 * arithmetic(type) * sizes;
            };
            on_every_implementation([&](const std::string& isa) {
              const std::string what = cat(isa, " ", name(kind), " ", type, " C ", C, with_bias ? " bias" : "",
                                           accumulate ? " accumulate" : "");
              const Guarded dx(old);
              activation_grad({kind, x, bias, dy, dx.tensor(), accumulate});
              expect_close(dx.tensor(), exact, bound, what);
              dx.expect_untouched(what);
              if (accumulate) return;
              const Tensor in_place = clone(dy);
              activation_grad({kind, x, bias, in_place, in_place});
              expect_same_bits(in_place, dx.tensor(), what + " in place");
            });
          }
}

TEST(Activation, F32IsAccurateOverItsWholeRange) {
  const int64_t n = 60001;
  Tensor x = empty({n}, DType::f32);
  for (int64_t i = 0; i < n; ++i) set_value(x, i, -150 + 0.005 * double(i));
  const Tensor exact = empty({n}, DType::f64), slopes = empty({n}, DType::f64), ones = zeros({n}, DType::f64);
  for (int64_t i = 0; i < n; ++i) set_value(ones, i, 1);
  for (const Activation kind : kActivations) {
    activation({kind, convert(x, DType::f64), {}, exact});
    activation_grad({kind, convert(x, DType::f64), {}, ones, slopes});
    on_every_implementation([&](const std::string& isa) {
      const Tensor y = empty({n}, DType::f32), slope = empty({n}, DType::f32);
      activation({kind, x, {}, y});
      activation_grad({kind, x, {}, convert(ones, DType::f32), slope});
      expect_close(
          y, exact, [&](int64_t i) { return 6 * kF32 * std::abs(value_at(x, i)); },
          cat(isa, " ", name(kind), " value"));
      expect_close(slope, slopes, 10 * kF32, cat(isa, " ", name(kind), " slope"));
      if (kind != Activation::silu) return;
      // The lower tail keeps its relative accuracy: x e^x, down to where e^-x overflows.
      expect_close(
          y, exact, [&](int64_t i) { return std::max(6 * kF32 * std::abs(value_at(exact, i)), 0x1p-120); },
          cat(isa, " silu tail"));
    });
  }
}

// Every finite number of bf16: the result is rounded once, from within the errors of f32.
TEST(Activation, Bf16IsRoundedFromF32OverItsWholeRange) {
  std::vector<float> finite;
  for (uint32_t high = 0; high < 0x10000; ++high)
    if (const float x = std::bit_cast<float>(high << 16); std::abs(x) < 1e30f) finite.push_back(x);
  const int64_t n = int64_t(finite.size());
  const Tensor x = tensor_of({n}, std::span<const float>(finite)), ones = empty({n}, DType::f64),
               exact = empty({n}, DType::f64), slopes = empty({n}, DType::f64);
  for (int64_t i = 0; i < n; ++i) set_value(ones, i, 1);
  for (const Activation kind : kActivations) {
    activation({kind, convert(x, DType::f64), {}, exact});
    activation_grad({kind, convert(x, DType::f64), {}, ones, slopes});
    on_every_implementation([&](const std::string& isa) {
      const Tensor in = convert(x, DType::bf16), y = empty_like(in), slope = empty_like(in);
      activation({kind, in, {}, y});
      activation_grad({kind, in, {}, convert(ones, DType::bf16), slope});
      const double eps = epsilon_of(DType::bf16);
      expect_close(
          y, exact,
          [&](int64_t i) {
            // Near 0 relative to the result, in the lower tail to 1; denormals may be 0.
            return eps * std::abs(value_at(exact, i)) + 8 * kF32 * std::min(std::abs(value_at(x, i)), 8.0) + 0x1p-125;
          },
          cat(isa, " ", name(kind), " value"));
      expect_close(
          slope, slopes, [&](int64_t i) { return eps * std::abs(value_at(slopes, i)) + 16 * kF32; },
          cat(isa, " ", name(kind), " slope"));
    });
  }
}

TEST(Activation, HugeNumbersGiveTheLimits) {
  const float in[] = {1e20f, 3e38f, -1e20f, -1e4f, NAN};
  const Tensor x = tensor_of({5}, in), y = empty_like(x), slope = empty_like(x), ones = empty_like(x);
  for (int64_t i = 0; i < 5; ++i) set_value(ones, i, 1);
  for (const Activation kind : kActivations)
    on_every_implementation([&](const std::string& isa) {
      activation({kind, x, {}, y});
      activation_grad({kind, x, {}, ones, slope});
      const bool bounded = kind == Activation::tanh;  // the others are x and 0
      for (int64_t i = 0; i < 2; ++i) {
        EXPECT_EQ(value_at(y, i), bounded ? 1 : double(in[i])) << isa << " " << name(kind);
        EXPECT_EQ(value_at(slope, i), bounded ? 0 : 1) << isa << " " << name(kind);
        EXPECT_NEAR(value_at(y, 2 + i), bounded ? -1 : 0, 1e-12) << isa << " " << name(kind);
        EXPECT_NEAR(value_at(slope, 2 + i), 0, 1e-12) << isa << " " << name(kind);
      }
      EXPECT_TRUE(std::isnan(value_at(y, 4)) && std::isnan(value_at(slope, 4))) << isa << " " << name(kind);
    });
}

// oracle: ffn.gelu
TEST(ActivationGrad, MatchesCentralDifferences) {
  for (const Activation kind : kActivations) {
    Tensor x = random_tensor({4, 5}, DType::f64, 31);
    if (kind == Activation::relu)  // away from the kink
      for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, value_at(x, i) + (value_at(x, i) > 0 ? 0.05 : -0.05));
    const Tensor bias = zeros({5}, DType::f64), dy = random_tensor({4, 5}, DType::f64, 32), dx = empty_like(x),
                 y = empty_like(x);
    activation_grad({kind, x, bias, dy, dx});
    expect_gradient(
        dx, x,
        [&] {
          activation({kind, x, bias, y});
          double sum = 0;
          for (int64_t i = 0; i < y.numel(); ++i) sum += value_at(y, i) * value_at(dy, i);
          return sum;
        },
        name(kind));
  }
}

TEST(Gated, EveryImplementationAgreesWithF64) {
  for (const DType type : kTypes)
    for (const Activation kind : kActivations)
      for (const int64_t C : kOddSizes) {
        const Tensor gate = random_tensor({2, C}, type, 41, 2), up = random_tensor({2, C}, type, 42);
        const Tensor exact = empty({2, C}, DType::f64);
        gated({kind, convert(gate, DType::f64), convert(up, DType::f64), exact});
        const auto bound = [&](int64_t i) {
          return epsilon_of(type) * std::abs(value_at(exact, i)) +
                 8 * arithmetic(type) * std::abs(value_at(gate, i) * value_at(up, i));
        };
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", name(kind), " ", type, " C ", C);
          const Guarded y(gate);  // y may be gate
          gated({kind, y.tensor(), up, y.tensor()});
          expect_close(y.tensor(), exact, bound, what);
          y.expect_untouched(what);
          const Tensor other = clone(up);
          gated({kind, gate, other, other});
          expect_same_bits(other, y.tensor(), what + " into up");
        });
      }
}

TEST(GatedGrad, EveryImplementationAgreesWithF64AndInPlace) {
  for (const DType type : kTypes)
    for (const Activation kind : kActivations)
      for (const int64_t C : kOddSizes) {
        const Tensor gate = random_tensor({2, C}, type, 51, 2), up = random_tensor({2, C}, type, 52),
                     dy = random_tensor({2, C}, type, 53);
        const Tensor dgate64 = empty({2, C}, DType::f64), dup64 = empty({2, C}, DType::f64);
        gated_grad({kind, convert(gate, DType::f64), convert(up, DType::f64), convert(dy, DType::f64), dgate64, dup64});
        const auto size = [&](int64_t i) { return (std::abs(value_at(gate, i)) + 4) * std::abs(value_at(dy, i)); };
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", name(kind), " ", type, " C ", C);
          const Guarded g(gate), u(up);
          gated_grad({kind, g.tensor(), u.tensor(), dy, g.tensor(), u.tensor()});
          expect_close(
              g.tensor(), dgate64,
              [&](int64_t i) {
                return epsilon_of(type) * std::abs(value_at(dgate64, i)) +
                       4 * arithmetic(type) * size(i) * std::abs(value_at(up, i));
              },
              what + " dgate");
          expect_close(
              u.tensor(), dup64,
              [&](int64_t i) {
                return epsilon_of(type) * std::abs(value_at(dup64, i)) + 4 * arithmetic(type) * size(i);
              },
              what + " dup");
          g.expect_untouched(what);
          u.expect_untouched(what);
          const Tensor d = clone(dy), dgate = empty_like(gate);
          gated_grad({kind, gate, up, d, dgate, d});
          expect_same_bits(d, u.tensor(), what + " dup into dy");
          expect_same_bits(dgate, g.tensor(), what + " dgate");
        });
      }
}

// oracle: ffn.swiglu
TEST(GatedGrad, MatchesCentralDifferences) {
  const Tensor gate = random_tensor({3, 4}, DType::f64, 61), up = random_tensor({3, 4}, DType::f64, 62);
  const Tensor dy = random_tensor({3, 4}, DType::f64, 63), y = empty_like(gate), dgate = empty_like(gate),
               dup = empty_like(gate);
  gated_grad({Activation::silu, gate, up, dy, dgate, dup});
  const auto value = [&] {
    gated({Activation::silu, gate, up, y});
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += value_at(y, i) * value_at(dy, i);
    return sum;
  };
  expect_gradient(dgate, gate, value, "dgate");
  expect_gradient(dup, up, value, "dup");
}

TEST(Activation, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({2, 4}, DType::f32);
  const auto message = [](auto&& f) {
    try {
      f();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message([&] {
              activation({Activation::relu, x, {}, zeros({2, 3}, DType::f32)});
            }),
            "activation: y must have the shape, dtype and device of x f32[2,4], got y f32[2,3]");
  EXPECT_EQ(message([&] {
              activation({Activation::relu, x, zeros({3}, DType::f32), x});
            }),
            "activation: bias must be f32[4] to match x f32[2,4], got bias f32[3]");
  EXPECT_EQ(message([&] {
              activation({Activation::relu, zeros({4}, DType::i32), {}, x});
            }),
            "activation: x must hold f64, f32 or bf16, got x i32[4]");
  const Tensor three = zeros({3, 4}, DType::f32);
  EXPECT_EQ(message([&] {
              activation({Activation::relu, three.slice(0, 2), {}, three.slice(1, 3)});
            }),
            "activation: y may be x itself but must not overlap a part of it: y f32[2,4], x f32[2,4]");
  EXPECT_EQ(message([&] {
              activation_grad({Activation::relu, x, {}, three.slice(0, 2), three.slice(0, 2), true});
            }),
            "activation_grad: dx must not share memory with dy: dx f32[2,4], dy f32[2,4]");
}

}  // namespace
}  // namespace lithe::kernels
