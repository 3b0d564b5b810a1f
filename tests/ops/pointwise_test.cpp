#include "lithe/ops/pointwise.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(Pointwise, Gradients) {
  using kernels::Pointwise;
  for (const Pointwise kind :
       {Pointwise::sigmoid, Pointwise::log_sigmoid, Pointwise::softplus, Pointwise::exp, Pointwise::elu1})
    kit::expect_gradients([&](const std::vector<Var>& in) { return pointwise(kind, in[0]); },
                          {kit::normal({4, 3}, DType::f64, 1)});
  EXPECT_EQ(pointwise(Pointwise::exp, Var(zeros({2}, DType::bf16)), true).dtype(), DType::f32);
}

}  // namespace
}  // namespace lithe
