#include "lithe/kernels/pointwise/pointwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/kernels/pointwise/reference.h"
#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

constexpr Pointwise kPointwise[] = {Pointwise::sigmoid, Pointwise::log_sigmoid, Pointwise::softplus, Pointwise::exp,
                                    Pointwise::elu1};

// A handful of roundings of the value, of 1 where the value is 1 minus something, and one of storing.
TEST(Pointwise, EveryImplementationAgreesWithTheDefinition) {
  for (const DType type : kTypes)
    for (const bool is_wide : {false, true})
      for (const Pointwise kind : kPointwise)
        for (const int64_t n : {1, 17, 70}) {
          const DType to = is_wide ? wide(type) : type;
          const Tensor x = random_tensor({n}, type, 1, 8), dy = random_tensor({n}, to, 2),
                       old = random_tensor({n}, type, 3);
          set_value(x, 0, -50);
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", type, " to ", to, " kind ", int(kind), " n ", n);
            const Guarded y(random_tensor({n}, to, 4));
            pointwise({kind, x, y.tensor()});
            for (int64_t i = 0; i < n; ++i) {
              const double want = ref::pointwise_value(kind, at(x, i));
              EXPECT_NEAR(at(y.tensor(), i), want, (8 * arithmetic(type) + epsilon_of(to)) * std::abs(want)) << what;
            }
            y.expect_untouched(what);
            for (const bool add : {false, true}) {
              const Guarded dx(old);
              pointwise_grad({kind, x, dy, dx.tensor(), add});
              for (int64_t i = 0; i < n; ++i) {
                const double term = ref::pointwise_slope(kind, at(x, i)) * at(dy, i), start = add ? at(old, i) : 0;
                EXPECT_NEAR(at(dx.tensor(), i), start + term,
                            12 * arithmetic(type) * (std::abs(term) + std::abs(start)) +
                                epsilon_of(type) * std::abs(start + term))
                    << what;
              }
              dx.expect_untouched(what);
            }
          });
        }
}

TEST(Pointwise, SlopesAreThoseOfTheValues) {
  for (const Pointwise kind : kPointwise)
    for (const double x : {-30.0, -3.0, -0.1, 0.2, 4.0, 30.0}) {
      const double slope = (ref::pointwise_value(kind, x + 1e-6) - ref::pointwise_value(kind, x - 1e-6)) / 2e-6;
      EXPECT_NEAR(ref::pointwise_slope(kind, x), slope, 1e-8 * std::max(1.0, std::abs(slope))) << int(kind) << " " << x;
    }
}

TEST(Pointwise, ExtremesAreSafe) {
  const Tensor x = tensor_of({4}, std::vector<float>{-1e30f, -200, 200, 1e30f}), y = empty({4}, DType::f32);
  on_every_implementation([&](const std::string& isa) {
    pointwise({Pointwise::sigmoid, x, y});
    EXPECT_EQ(at(y, 0), 0) << isa;
    EXPECT_EQ(at(y, 3), 1) << isa;
    pointwise({Pointwise::log_sigmoid, x, y});
    EXPECT_EQ(at(y, 1), -200) << isa;
    EXPECT_EQ(std::abs(at(y, 2)), 0) << isa;
    pointwise({Pointwise::softplus, x, y});
    EXPECT_EQ(at(y, 2), 200) << isa;
  });
}

TEST(Pointwise, ErrorsSayWhatDoesNotFit) {
  try {
    pointwise({Pointwise::exp, zeros({3}, DType::f32), zeros({3}, DType::bf16)});
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "pointwise: y must be f32 or f32 to match x, got bf16[3]");
  }
}

}  // namespace
}  // namespace lithe::kernels
