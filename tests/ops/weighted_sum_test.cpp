#include "lithe/ops/weighted_sum.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(WeightedSum, AddsWithWeights) {
  const std::vector<Var> xs{kit::tensor_f64({1, 2}, {1, 2}), kit::tensor_f64({1, 2}, {10, 20})};
  EXPECT_EQ(
      kit::bit_difference(weighted_sum(xs, kit::tensor_f64({2}, {3, 0.5})).value(), kit::tensor_f64({1, 2}, {8, 16})),
      "");
  EXPECT_EQ(kit::error_of([&] {
              weighted_sum(xs, kit::tensor_f64({3}, {1, 1, 1}));
            }),
            "weighted_sum: needs a weight for each of 2 tensors, got [3]");
}

TEST(WeightedSum, Gradients) {
  kit::expect_gradients(
      [](const std::vector<Var>& in) {
        return weighted_sum({in[0], in[1], in[0]}, in[2]);  // one of them twice
      },
      {kit::normal({4, 3}, DType::f64, 1), kit::normal({4, 3}, DType::f64, 2), kit::normal({3}, DType::f64, 3)});
}

}  // namespace
}  // namespace lithe
