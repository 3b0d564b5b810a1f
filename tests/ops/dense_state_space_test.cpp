#include "lithe/ops/dense_state_space.h"

#include <cmath>

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

constexpr Discretisation kAll[] = {Discretisation::euler, Discretisation::bilinear, Discretisation::zoh};

struct Made {
  Tensor a, f;
  Made(Discretisation kind, const Tensor& A, double D) {
    const auto out = discretise_dense(kind, Var(A), Var(kit::tensor_f64({1}, {std::log(D)})));
    a = out[0].value(), f = out[1].value();
  }
};

// oracle: ssm.continuous, ssm.euler, ssm.bilinear, ssm.zoh
TEST(DiscretiseDense, GivesTheWorkedNumbers) {
  const double want[3][2] = {{.9, .1}, {.904762, .095238}, {.904837, .095163}};
  for (int i = 0; i < 3; ++i) {
    const Made made(kAll[i], kit::tensor_f64({1, 1}, {-1}), 0.1);
    EXPECT_NEAR(value_at(made.a, 0), want[i][0], 5e-7);
    EXPECT_NEAR(value_at(made.f, 0), want[i][1], 5e-7);
  }
}

// oracle: ssm.continuous
TEST(DiscretiseDense, ADiagonalMatrixIsTheDiagonalForm) {
  const double rates[] = {-0.5, -2, -7};
  const Tensor A = zeros({3, 3}, DType::f64), decay = zeros({3}, DType::f64);
  for (int64_t i = 0; i < 3; ++i) set_value(A, 4 * i, rates[i]), set_value(decay, i, std::log(-rates[i]));
  for (const Discretisation kind : kAll) {
    const Made made(kind, A, 0.2);
    const auto want = discretise(kind, Var(decay), {}, Var(kit::tensor_f64({1}, {std::log(0.2)})));
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        EXPECT_NEAR(value_at(made.a, 3 * i + j), i == j ? value_at(want[0].value(), i) : 0, 1e-14);
        EXPECT_NEAR(value_at(made.f, 3 * i + j), i == j ? value_at(want[1].value(), i) : 0, 1e-14);
      }
  }
}

// A = 0 has no inverse, and f = D I all the same (E32).
// oracle: ssm.zoh
TEST(DiscretiseDense, AStateThatDoesNotDecaySumsItsInput) {
  const Made made(Discretisation::zoh, zeros({2, 2}, DType::f64), 0.1);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(value_at(made.a, i), i % 3 == 0);
    EXPECT_NEAR(value_at(made.f, i), i % 3 == 0 ? 0.1 : 0, 1e-16);
  }
}

// A nilpotent A ends the series: e^(D A) = I + D A, f = D I + D^2 A / 2.
// oracle: ssm.zoh
TEST(DiscretiseDense, ANilpotentMatrixIsExact) {
  const Made made(Discretisation::zoh, kit::tensor_f64({2, 2}, {0, 3, 0, 0}), 0.5);
  const double a[] = {1, 1.5, 0, 1}, f[] = {0.5, 0.375, 0, 0.5};
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(value_at(made.a, i), a[i], 1e-15);
    EXPECT_NEAR(value_at(made.f, i), f[i], 1e-15);
  }
}

TEST(DiscretiseDense, Gradients) {
  for (const Discretisation kind : kAll)
    for (const int which : {0, 1})
      kit::expect_gradients([&](const Vars& in) { return discretise_dense(kind, in[0], in[1])[size_t(which)]; },
                            {random({3, 3}, 5), kit::tensor_f64({1}, {std::log(0.3)})});
}

TEST(DiscretiseDense, SaysWhatItNeeds) {
  EXPECT_EQ(kit::error_of([] {
              discretise_dense(Discretisation::zoh, Var(zeros({2, 3}, DType::f64)), Var(zeros({1}, DType::f64)));
            }),
            "discretise_dense: a must be [n, n] and log_step [1], got [2,3] and [1]");
  EXPECT_NE(kit::error_of([] {
              Made(Discretisation::bilinear, kit::tensor_f64({1, 1}, {2}), 1);
            }).find("rank 0"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
