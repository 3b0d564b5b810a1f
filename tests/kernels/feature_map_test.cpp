#include "lithe/kernels/feature_map/feature_map.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;
using Kind = FeatureMapArgs::Kind;

// Exponents err by a rounding of their size, sums by one a term.
TEST(FeatureMap, EveryImplementationAgreesWithF64) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const Kind kind : {Kind::softmax, Kind::exponential})
      for (const bool centre : {false, true})
        for (const int64_t C : {1, 5, 16, 70}) {
          const int64_t N = 7, heads = 3;
          FeatureMapArgs a;
          a.kind = kind, a.heads = heads, a.centre = centre, a.factor = 0.3;
          a.x = random_tensor({N, heads * C}, type, 1, 3);
          if (kind == Kind::exponential) a.shift = random_tensor({N, heads}, DType::f32, 2);
          FeatureMapArgs e = a;
          e.x = convert(a.x, DType::f64), e.y = zeros(a.x.shape(), DType::f64);
          if (a.shift) e.shift = convert(a.shift, DType::f64);
          feature_map(e);
          const Tensor y = convert(e.y, type), dy = random_tensor(y.shape(), type, 3),
                       old = random_tensor(y.shape(), type, 4);
          const Tensor dx64 = convert(old, DType::f64), dshift64 = zeros({N, heads}, DType::f64);
          feature_map_grad({kind, convert(y, DType::f64), convert(dy, DType::f64), dx64, dshift64, heads, centre});
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", type, " C ", C, " kind ", int(kind), centre ? " centred" : "");
            const Guarded mine(random_tensor(y.shape(), type, 5)), dx(old);
            a.y = mine.tensor();
            feature_map(a);
            const double relative = (double(C) + 32) * kF32 + epsilon_of(type);
            expect_close(
                mine.tensor(), e.y, [&](int64_t i) { return relative * at(e.y, i); }, what);
            mine.expect_untouched(what);
            const Tensor dshift = zeros({N, heads}, DType::f32);
            feature_map_grad({kind, y, dy, dx.tensor(), dshift, heads, centre});
            const double bound = double(C + 8) * kF32 * (1 + double(C) * largest_of(y) * largest_of(dy));
            expect_close(
                dx.tensor(), dx64,
                [&](int64_t i) { return bound * (1 + largest_of(y)) + epsilon_of(type) * std::abs(at(dx64, i)); },
                what + " dx");
            expect_close(dshift, dshift64, bound, what + " dshift");
            dx.expect_untouched(what);
          });
        }
}

TEST(FeatureMap, TheSoftmaxIsSafeAndSumsToOne) {
  const Tensor x = tensor_of({1, 4}, std::vector<float>{1e4f, 0, -5, -4}), y = empty({1, 4}, DType::f32);
  on_every_implementation([&](const std::string& isa) {
    FeatureMapArgs a;
    a.x = x, a.y = y, a.heads = 2;
    feature_map(a);
    EXPECT_EQ(at(y, 0), 1) << isa;
    EXPECT_EQ(at(y, 1), 0) << isa;
    EXPECT_NEAR(at(y, 3), 1 / (1 + std::exp(-1.0)), 1e-6) << isa;
  });
}

TEST(FeatureMap, ErrorsSayWhatDoesNotFit) {
  FeatureMapArgs a;
  a.x = zeros({2, 5}, DType::f32), a.y = a.x, a.heads = 2;
  try {
    feature_map(a);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "feature_map: x must be [N, heads*C] of 2 heads, got f32[2,5]");
  }
}

}  // namespace
}  // namespace lithe::kernels
