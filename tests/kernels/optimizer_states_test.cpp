// AdamW with its moments in 8-bit codes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/kernels/optimizer/reference.h"
#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

// x in [0, 1] lies in this decade of the codes, or below its first code.
int decade_of(double x, int bits) { return x > 0 ? std::max(0, int(std::ceil(std::log10(x) - 1e-12)) + bits - 1) : 0; }
// Half of a step between the codes around x: what rounding may be off by.
double half_step(double x, int bits) {
  const int k = decade_of(x, bits);
  return k == 0 ? 0.5 * std::pow(10.0, 1 - bits) : 0.45 / (1 << k) * std::pow(10.0, k + 1 - bits);
}

// Both moments of n numbers.
struct States {
  explicit States(int64_t n)
      : m(zeros({n}, DType::i8)),
        v(zeros({n}, DType::u8)),
        m_scale(zeros({state_blocks(n)}, DType::f32)),
        v_scale(zeros({state_blocks(n)}, DType::f32)) {}
  double mean(int64_t i) const { return ref::Moment<float>{m, m_scale, true}.read(i); }
  double square(int64_t i) const { return ref::Moment<float>{v, v_scale, false}.read(i); }
  Tensor m, v, m_scale, v_scale;
};

AdamWArgs args_of(const Tensor& param, const Tensor& gradient, const States& s, double beta1 = 0.9,
                  double beta2 = 0.95) {
  AdamWArgs a{.param = param, .gradient = gradient, .m = s.m, .v = s.v, .lr = 0.01, .beta1 = beta1, .beta2 = beta2};
  a.m_scale = s.m_scale;
  a.v_scale = s.v_scale;
  return a;
}

TEST(StateCode, RisesFromZeroToOneAndRoundsToTheNearest) {
  for (const int bits : {7, 8}) {
    const int last = (1 << bits) - 1;
    EXPECT_EQ(ref::state_value(0, bits), 0);
    EXPECT_DOUBLE_EQ(ref::state_value(1, bits), std::pow(10.0, 1 - bits));
    EXPECT_DOUBLE_EQ(ref::state_value(last, bits), 1);
    for (int code = 0; code <= last; ++code) {
      EXPECT_EQ(ref::state_code(ref::state_value(code, bits), bits), code);
      EXPECT_GT(ref::state_value(code, bits), code ? ref::state_value(code - 1, bits) : -1);
    }
    // Numbers of 9 decades.
    for (int64_t i = 0; i <= 9000; ++i) {
      const double x = std::pow(10.0, -double(i) / 1000), near = ref::state_value(ref::state_code(x, bits), bits);
      EXPECT_LE(std::abs(near - x), half_step(x, bits) * (1 + 1e-12)) << x;
      if (x < std::pow(10.0, 1 - bits)) continue;
      // 3 % (v) and 7 % (m) in the last decade, 6 and 12 % in the one before.
      EXPECT_LE(std::abs(near - x), 4.5 / (4.5 + (1 << decade_of(x, bits))) * x * (1 + 1e-9)) << x;
    }
  }
}

// A gradient of 0 at beta 1/2 halves every number and so the scales alone: what is read is written again.
TEST(AdamWStates, EveryCodeComesBack) {
  const int64_t n = 3 * kStateBlock;
  on_every_implementation([&](const std::string& isa) {
    States s(n);
    for (int64_t i = 0; i < n; ++i) {
      s.m.data<int8_t>()[i] = int8_t(std::max<int64_t>(i % kStateBlock - 128, -127));
      s.v.data<uint8_t>()[i] = uint8_t(i % kStateBlock);
    }
    for (int64_t b = 0; b < 3; ++b) {
      s.m_scale.data<float>()[b] = float(std::pow(10.0, double(b) - 4));
      s.v_scale.data<float>()[b] = float(std::pow(10.0, 2 * double(b) - 9));
    }
    const Tensor m = clone(s.m), v = clone(s.v), m_scale = clone(s.m_scale), v_scale = clone(s.v_scale);
    adamw(args_of(zeros({n}, DType::f32), zeros({n}, DType::f32), s, 0.5, 0.5));
    expect_same_bits(s.m, m, isa + " m");
    expect_same_bits(s.v, v, isa + " v");
    for (int64_t b = 0; b < 3; ++b) {  // a code's value is a product and a sum
      EXPECT_NEAR(value_at(s.m_scale, b), 0.5 * value_at(m_scale, b), 4 * kF32 * value_at(m_scale, b)) << isa;
      EXPECT_NEAR(value_at(s.v_scale, b), 0.5 * value_at(v_scale, b), 4 * kF32 * value_at(v_scale, b)) << isa;
    }
  });
}

TEST(AdamWStates, EveryImplementationAgreesWithF64) {
  for (const int64_t n :
       {int64_t(1), int64_t(17), int64_t(63), int64_t(255), int64_t(256), int64_t(257), int64_t(1000), int64_t(5003)}) {
    // Two steps from nothing: the second reads what the first wrote.
    const Tensor start = random_tensor({n}, DType::f32, 1), first = random_tensor({n}, DType::f32, 2),
                 g = random_tensor({n}, DType::f32, 3);
    States begun(n);
    {
      force_reference(true);
      adamw(args_of(clone(start), first, begun));
      force_reference(false);
    }
    on_every_implementation([&](const std::string& isa) {
      const std::string what = cat(isa, " n ", n);
      const Guarded param(start), gradient(g), shadow(zeros({n}, DType::bf16)), m_scale(begun.m_scale),
          v_scale(begun.v_scale);
      States s(n);
      copy_into(s.m, begun.m), copy_into(s.v, begun.v);
      s.m_scale = m_scale.tensor(), s.v_scale = v_scale.tensor();
      AdamWArgs a = args_of(param.tensor(), gradient.tensor(), s);
      a.shadow = shadow.tensor(), a.weight_decay = 0.1, a.gradient_scale = 0.5, a.step = 2, a.eps = 1e-6;
      adamw(a);
      const Tensor p64 = empty({n}, DType::f64);
      std::vector<double> mean, square, mean_most, square_most, size;
      for (int64_t i = 0; i < n; ++i) {
        const double gi = 0.5 * value_at(g, i), p = value_at(start, i);
        mean.push_back(0.9 * begun.mean(i) + 0.1 * gi);
        square.push_back(0.95 * begun.square(i) + 0.05 * gi * gi);
        const double root = std::sqrt(square.back() / (1 - 0.95 * 0.95)) + a.eps;
        set_value(p64, i, p - 0.01 * (mean.back() / (1 - 0.81) / root + 0.1 * p));
        size.push_back((std::abs(begun.mean(i)) + std::abs(gi)) / (1 - 0.81) / root);
      }
      expect_close(
          param.tensor(), p64,
          // A code is read with an error of some roundings of the end of its decade, so of ten times itself.
          [&](int64_t i) { return kF32 * (std::abs(value_at(p64, i)) + 60 * 0.01 * (size[size_t(i)] + 1)); }, what);
      expect_same_bits(shadow.tensor(), convert(param.tensor(), DType::bf16), what + " shadow");
      for (int64_t begin = 0; begin < n; begin += kStateBlock) {
        const int64_t end = std::min(n, begin + kStateBlock), b = begin / kStateBlock;
        double m_most = 0, v_most = 0;
        for (int64_t i = begin; i < end; ++i) {
          m_most = std::max(m_most, std::abs(mean[size_t(i)]));
          v_most = std::max(v_most, square[size_t(i)]);
        }
        EXPECT_NEAR(value_at(s.m_scale, b), m_most, 20 * kF32 * m_most) << what;
        EXPECT_NEAR(value_at(s.v_scale, b), v_most, 20 * kF32 * v_most) << what;
        for (int64_t i = begin; i < end; ++i) {
          const double x = std::abs(mean[size_t(i)]) / m_most, y = square[size_t(i)] / v_most;
          EXPECT_LE(std::abs(s.mean(i) - mean[size_t(i)]), (half_step(x, 7) + 40 * kF32) * m_most) << what << " " << i;
          // What is not 0 in v stays so.
          EXPECT_LE(std::abs(s.square(i) - square[size_t(i)]), (std::max(half_step(y, 8), 1e-7) + 40 * kF32) * v_most)
              << what << " " << i;
        }
      }
      for (const Guarded* t : {&param, &gradient, &shadow, &m_scale, &v_scale}) t->expect_untouched(what);
    });
  }
}

TEST(AdamWStates, NothingBecomesZeroThatDivides) {
  on_every_implementation([&](const std::string& isa) {
    const int64_t n = kStateBlock + 5;
    const Tensor p = zeros({n}, DType::f32), g = zeros({n}, DType::f32);
    set_value(g, 0, 1e6), set_value(g, 1, 1e-6), set_value(g, 2, -1e-6);
    const States s(n);
    adamw(args_of(p, g, s));
    EXPECT_EQ(s.v.data<uint8_t>()[0], 255) << isa;
    EXPECT_EQ(s.m.data<int8_t>()[0], 127) << isa;
    for (const int64_t i : {1, 2}) {
      EXPECT_EQ(s.v.data<uint8_t>()[i], 1) << isa;
      EXPECT_EQ(s.m.data<int8_t>()[i], 0) << isa;
    }
    // Where there was never a gradient there is no state and no step, in the last block nothing at all.
    for (int64_t i = 3; i < n; ++i) EXPECT_EQ(s.v.data<uint8_t>()[i] + s.m.data<int8_t>()[i], 0) << isa << " " << i;
    for (int64_t i = 3; i < n; ++i) EXPECT_EQ(value_at(p, i), 0) << isa;
    EXPECT_EQ(value_at(s.m_scale, 1), 0) << isa;
    EXPECT_EQ(value_at(s.v_scale, 1), 0) << isa;
  });
}

// Squares of 1e-22 are below what has an inverse.
TEST(AdamWStates, TheSmallestGradientsGiveFiniteSteps) {
  on_every_implementation([&](const std::string& isa) {
    const Tensor p = zeros({300}, DType::f32), g = random_tensor({300}, DType::f32, 9, 1e-22);
    const States s(300);
    for (int64_t step = 1; step <= 3; ++step) {
      AdamWArgs a = args_of(p, g, s);
      a.step = step;
      adamw(a);
      EXPECT_TRUE(all_finite(p)) << isa;
    }
    EXPECT_LE(sum_of_squares(p), 1e-20) << isa;
  });
}

TEST(AdamWStates, ThreadsDoNotChangeABit) {
  const int64_t n = 70001;
  const Tensor g = random_tensor({n}, DType::f32, 9);
  std::optional<States> first;
  Tensor param;
  for (const int count : {1, 2, 3}) {
    const WithThreads with(count);
    const Tensor p = random_tensor({n}, DType::f32, 8);
    const States s(n);
    for (int64_t step = 1; step <= 3; ++step) {
      AdamWArgs a = args_of(p, g, s);
      a.step = step;
      adamw(a);
    }
    if (!first) first.emplace(s), param = p;
    expect_same_bits(p, param, cat(count, " threads"));
    expect_same_bits(s.m, first->m, cat(count, " threads, m"));
    expect_same_bits(s.v, first->v, cat(count, " threads, v"));
    expect_same_bits(s.m_scale, first->m_scale, cat(count, " threads, m_scale"));
    expect_same_bits(s.v_scale, first->v_scale, cat(count, " threads, v_scale"));
  }
}

TEST(SplitWeights, HalvesOfEveryUpperHalfJoinToTheSameBits) {
  const std::vector<uint32_t> lowers = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1234};
  const int64_t n = 65536 * int64_t(lowers.size());
  const Tensor wide = empty({n}, DType::f32), high = empty({n}, DType::bf16), rest = empty({n, 2}, DType::u8),
               again = empty({n}, DType::f32);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = uint32_t(i % 65536) << 16 | lowers[size_t(i / 65536)];
    std::memcpy(wide.data<float>() + i, &bits, sizeof bits);
  }
  split(wide, high, rest);
  join(high, rest, again);
  EXPECT_EQ(std::memcmp(wide.raw(), again.raw(), size_t(wide.bytes())), 0);
  for (int64_t i = 0; i < n; ++i) {
    const float x = wide.data<float>()[i], near = high.data<bf16>()[i];
    if (!std::isfinite(x) || !std::isfinite(near)) continue;
    // The nearest: that of the type's own rounding, but for halves.
    const float even = bf16(x);
    if (lowers[size_t(i / 65536)] == 0x8000)
      EXPECT_GT(std::abs(near), std::abs(x));
    else
      EXPECT_EQ(near, even) << x;
  }
}

// Splitting changes where a weight stands, not what it is.
TEST(SplitWeights, TheStepIsThatOfWholeWeights) {
  for (const int64_t n : {int64_t(1), int64_t(17), int64_t(255), int64_t(1000), int64_t(5003)})
    on_every_implementation([&](const std::string& isa) {
      for (const bool coded : {false, true})
        for (const bool clear : {false, true}) {
          const std::string what = cat(isa, " n ", n, coded ? " coded" : "", clear ? " clear" : "");
          const Tensor p = random_tensor({n}, DType::f32, 1), joined = empty({n}, DType::f32);
          const Guarded high(empty({n}, DType::bf16)), rest(empty({n, 2}, DType::u8));
          split(p, high.tensor(), rest.tensor());
          States whole(n), halves(n);
          const Tensor m[] = {zeros({n}, DType::f32), zeros({n}, DType::f32)},
                       v[] = {zeros({n}, DType::f32), zeros({n}, DType::f32)};
          for (int64_t step = 1; step <= 3; ++step)
            for (const bool is_split : {false, true}) {
              const Tensor g = random_tensor({n}, DType::f32, 10 + uint64_t(step));
              AdamWArgs a = args_of(is_split ? high.tensor() : p, g, is_split ? halves : whole);
              if (!coded) a.m = m[is_split], a.v = v[is_split], a.m_scale = a.v_scale = Tensor();
              if (is_split) a.rest = rest.tensor();
              a.step = step, a.weight_decay = 0.1, a.clear = clear;
              adamw(a);
              EXPECT_EQ(sum_of_squares(g) == 0, clear) << what;
            }
          join(high.tensor(), rest.tensor(), joined);
          expect_same_bits(joined, p, what);
          const Tensor again = empty({n}, DType::bf16), lower = empty({n, 2}, DType::u8);
          split(joined, again, lower);
          expect_same_bits(high.tensor(), again, what + " upper halves");
          expect_same_bits(coded ? halves.m : m[1], coded ? whole.m : m[0], what + " m");
          high.expect_untouched(what);
          rest.expect_untouched(what);
        }
    });
}

TEST(AdamWStates, RefusesWhatDoesNotFit) {
  const Tensor p = zeros({300}, DType::f32);
  const auto error_of = [&](const auto& change) {
    const States s(300);
    AdamWArgs a = args_of(p, p, s);
    change(a);
    try {
      adamw(a);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(error_of([](AdamWArgs& a) { a.v_scale = Tensor(); }),
            "adamw: m_scale and v_scale belong together; give both or none");
  EXPECT_EQ(error_of([](AdamWArgs& a) { a.m = a.v; }),
            "adamw: m beside m_scale must be i8[300] to match param, got u8[300]");
  EXPECT_NE(error_of([](AdamWArgs& a) { a.v_scale = zeros({1}, DType::f32); }).find("v_scale must be"),
            std::string::npos);
  EXPECT_EQ(error_of([](AdamWArgs& a) {
              a.param = zeros({300}, DType::bf16);
              a.rest = zeros({300}, DType::u8);
            }),
            "adamw: rest must be u8[300,2] to match param[300], got u8[300]");
  EXPECT_NE(error_of([](AdamWArgs& a) { a.param = zeros({300}, DType::bf16); }).find("bf16 with its rest"),
            std::string::npos);
  EXPECT_NE(error_of([](AdamWArgs& a) { a.param = a.gradient = zeros({300}, DType::f64); }).find("need an f32 param"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe::kernels
