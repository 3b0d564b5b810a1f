#include "lithe/autograd/gradcheck.h"

#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/support/numbers.h"

namespace lithe {
namespace {

// y = x^3 with a gradient of `power` x^2.
VarFunction cube(double power) {
  return [power](const std::vector<Var>& in) {
    const Tensor x = in[0].value(), y = empty_like(x);
    for (int64_t i = 0; i < x.numel(); ++i) set_value(y, i, value_at(x, i) * value_at(x, i) * value_at(x, i));
    return record("cube", {in[0]}, y, [=, ref = in[0].ref()](const Tensor& dy, Grads& g) {
      const auto dx = g.into(ref);
      for (int64_t i = 0; i < x.numel(); ++i)
        set_value(dx.to, i,
                  power * value_at(x, i) * value_at(x, i) * value_at(dy, i) + (dx.accumulate ? value_at(dx.to, i) : 0));
    });
  };
}

TEST(Gradcheck, AcceptsRightGradientsAndNamesWrongOnes) {
  const std::vector<Tensor> inputs{kit::normal({2, 3}, DType::f64, 1)};
  EXPECT_LE(gradcheck(cube(3), inputs), 1e-8);
  std::string where;
  EXPECT_GE(gradcheck(cube(3.001), inputs, &where), 1e-4);
  EXPECT_NE(where.find("input 0 element "), std::string::npos) << where;
}

TEST(Gradcheck, MissingGradientsCountAsZero) {
  const std::vector<Tensor> inputs{kit::normal({2, 3}, DType::f64, 1), kit::normal({2, 3}, DType::f64, 2)};
  EXPECT_LE(gradcheck([](const std::vector<Var>& in) { return mul(in[0], in[1]); }, inputs), 1e-8);
  std::string where;
  EXPECT_GE(gradcheck([](const std::vector<Var>& in) { return mul(in[0], Var(in[1].value())); }, inputs, &where), 0.1);
  EXPECT_NE(where.find("input 1"), std::string::npos) << where;
}

TEST(Gradcheck, NeedsF64) { EXPECT_THROW(gradcheck(cube(3), {kit::normal({2}, DType::f32, 1)}), Error); }

}  // namespace
}  // namespace lithe
