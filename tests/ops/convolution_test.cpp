#include "lithe/ops/convolution.h"

#include "lithe/ops/linear.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(Convolution, Gradients) {
  const Sequences sequences({0, 4, 5, 9});
  for (const int64_t ahead : {0, 1}) {
    const std::vector<Tensor> inputs{kit::normal({9, 4}, DType::f64, 1), kit::normal({3, 4}, DType::f64, 2)};
    kit::expect_gradients([&](const std::vector<Var>& in) { return convolution(in[0], in[1], sequences, ahead); },
                          inputs);
    kit::expect_gradients([&](const std::vector<Var>& in) { return unfold(in[0], 3, sequences, ahead); }, {inputs[0]});
  }
}

// oracle: conv.depthwise
TEST(Convolution, OfEachChannelIsTheFullOneWithDiagonalMatrices) {
  const Tensor x = kit::normal({7, 3}, DType::f64, 1), w = kit::normal({4, 3}, DType::f64, 2),
               full = zeros({12, 3}, DType::f64);
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t c = 0; c < 3; ++c) set_value(full, (r * 3 + c) * 3 + c, value_at(w, r * 3 + c));
  const Sequences sequences({0, 3, 7});
  EXPECT_EQ(kit::close(convolution(x, w, sequences).value(), linear(unfold(x, 4, sequences), full).value(), 8), "");
}

}  // namespace
}  // namespace lithe
