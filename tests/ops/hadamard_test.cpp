#include "lithe/ops/hadamard.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(HadamardOp, TransformsRowsThenScalesAndShifts) {
  const Var x(kit::tensor_f64({2, 4}, {1, 2, 3, 4, 1, 0, 0, 0})), alpha(kit::tensor_f64({4}, {1, 2, 3, 4})),
      beta(kit::tensor_f64({4}, {10, 20, 30, 40}));
  EXPECT_EQ(kit::values(hadamard(x, {}, {}, 4, 0.5).value()), (std::vector<double>{5, -1, -2, 0, .5, .5, .5, .5}));
  EXPECT_EQ(kit::values(hadamard(x, alpha, beta, 4, 0.5).value()),
            (std::vector<double>{15, 18, 24, 40, 10.5, 21, 31.5, 42}));
}

// Order 20 is not symmetric, so that its gradient needs the transposed matrix.
// oracle: proj.hadamard, had.kronecker, had.pad
TEST(HadamardOp, Gradients) {
  const std::pair<int64_t, int64_t> sizes[] = {{8, 8}, {12, 12}, {20, 20}, {40, 40}, {5, 8}};  // columns, order
  for (const auto& [d, order] : sizes) {
    const std::vector<Tensor> inputs{kit::normal({3, d}, DType::f64, 1), kit::normal({d}, DType::f64, 2),
                                     kit::normal({d}, DType::f64, 3)};
    const std::string what = cat("order ", order);
    const int64_t D = order;
    kit::expect_gradients([=](const Vars& in) { return hadamard(in[0], in[1], in[2], D, 0.3); }, inputs, what);
    kit::expect_gradients([=](const Vars& in) { return hadamard(in[0], in[1], in[1], D, 0.3); }, inputs,
                          what + ", alpha is beta");
    kit::expect_gradients([=](const Vars& in) { return hadamard(in[0], {}, in[2], D, 0.3); }, inputs, what + ", beta");
    kit::expect_gradients([=](const Vars& in) { return hadamard(in[0], in[1], {}, D, 0.3); }, inputs, what + ", alpha");
  }
}

TEST(HadamardOp, RefusesOrdersThatCannotBeBuilt) {
  const Var x(kit::normal({2, 15}, DType::f64, 1));
  const std::string text = kit::error_of([&] { hadamard(x, {}, {}, 15, 1); });
  EXPECT_NE(text.find("12 below and 16 above"), std::string::npos) << text;
}

}  // namespace
}  // namespace lithe
