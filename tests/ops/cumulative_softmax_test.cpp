#include "lithe/ops/cumulative_softmax.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(CumulativeSoftmax, Gradients) {
  const Sequences sequences({0, 4, 5, 9});
  const std::vector<Tensor> inputs{kit::normal({9, 2}, DType::f64, 1), kit::normal({9, 6}, DType::f64, 2)};
  for (const bool causal : {true, false}) {
    kit::expect_gradients([&](const Vars& in) { return cumulative_softmax(in[0], in[1], sequences, causal); }, inputs,
                          causal ? "causal" : "bidirectional");
    kit::expect_gradients([&](const Vars& in) { return cumulative_softmax(in[0], Var(inputs[1]), sequences, causal); },
                          {inputs[0]}, "values are constant");
  }
}

TEST(CumulativeSoftmax, StatesContinueWhatWasThere) {
  const Tensor s = kit::normal({7, 2}, DType::f32, 3), v = kit::normal({7, 6}, DType::f32, 4);
  const Tensor whole = cumulative_softmax(s, v, Sequences({0, 3, 7}), true).value();
  const std::vector<Tensor> states{zeros({2, 5}, DType::f32), zeros({2, 5}, DType::f32)};
  const auto step = [&](const std::vector<int64_t>& rows, const Sequences& sequences) {
    return cumulative_softmax_step(kit::rows_of(s, rows), kit::rows_of(v, rows), sequences, states);
  };
  const Tensor first = step({0, 1, 3}, Sequences({0, 2, 3})), second = step({2, 4, 5, 6}, Sequences({0, 1, 4}, {2, 1}));
  EXPECT_EQ(
      kit::bit_difference(
          kit::concatenate({first.slice(0, 2), second.slice(0, 1), first.slice(2, 3), second.slice(1, 4)}), whole),
      "");
  EXPECT_EQ(kit::error_of([&] { cumulative_softmax_step(s, v, Sequences::single(7), states); }),
            "cumulative_softmax: one state a sequence: 1, got 2");
}

TEST(HeadDot, Gradients) {
  const std::vector<Tensor> inputs{kit::normal({4, 6}, DType::f64, 5), kit::normal({4, 6}, DType::f64, 6)};
  kit::expect_gradients([](const Vars& in) { return head_dot(in[0], in[1], 2, 0.7); }, inputs);
  kit::expect_gradients([](const Vars& in) { return head_dot(in[0], in[0], 3); }, {inputs[0]}, "one in both roles");
  EXPECT_EQ(kit::error_of([&] { head_dot(inputs[0], inputs[1], 4); }),
            "head_dot: a and b must be equal [N, heads*d_h] of 4 heads, got [4,6] and [4,6]");
}

}  // namespace
}  // namespace lithe
