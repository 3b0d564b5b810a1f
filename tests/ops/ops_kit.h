// Gradients and error texts of operations.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "lithe/autograd/gradcheck.h"
#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace lithe {

using Vars = std::vector<Var>;

inline Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::f64) {
  return kit::normal(shape, dtype, seed);
}

}  // namespace lithe
namespace lithe::kit {

/// f's gradients agree with central differences in f64 (spec oracle G).
inline void expect_gradients(const VarFunction& f, const std::vector<Tensor>& inputs, const std::string& what = "") {
  std::string where;
  EXPECT_LE(gradcheck(f, inputs, &where), 1e-7) << what << ": " << where;
}

/// Value and gradients of f.
struct Outcome {
  Tensor y;
  std::vector<Tensor> gradients;
};
inline Outcome differentiate(const VarFunction& f, const std::vector<Tensor>& inputs, const Tensor& dy) {
  std::vector<Var> vars;
  for (const Tensor& x : inputs) vars.push_back(Var::leaf(clone(x)));
  Tape tape;
  const Var y = f(vars);
  tape.backward(y, clone(dy));
  Outcome out{y.value(), {}};
  for (const Var& x : vars) out.gradients.push_back(x.grad());
  return out;
}

/// Two ways to compute the same: values and gradients agree within `roundings` (see close()).
inline void expect_same(const VarFunction& f, const VarFunction& g, const std::vector<Tensor>& inputs, double roundings,
                        const std::string& what = "") {
  const Tensor y = f([&] {
                     std::vector<Var> in;
                     for (const Tensor& x : inputs) in.emplace_back(x);
                     return in;
                   }())
                       .value();
  const Tensor dy = y.numel() == 1 ? tensor_f64({1}, {1}) : normal(y.shape(), DType::f64, 99);
  const Outcome a = differentiate(f, inputs, convert(dy, y.dtype())),
                b = differentiate(g, inputs, convert(dy, y.dtype()));
  EXPECT_EQ(close(a.y, b.y, roundings), "") << what;
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(close(a.gradients[i], b.gradients[i], roundings), "") << what << ", input " << i;
}

}  // namespace lithe::kit
