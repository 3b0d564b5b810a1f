#include "lithe/ops/linear_recurrence.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

Tensor negative(const Shape& shape, uint64_t seed) {
  const Tensor x = kit::normal(shape, DType::f64, seed);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, -std::abs(value_at(x, i)));
  return x;
}

TEST(LinearRecurrence, Gradients) {
  const Sequences sequences({0, 4, 5, 9});
  const std::vector<Tensor> qkv{kit::normal({9, 6}, DType::f64, 1), kit::normal({9, 6}, DType::f64, 2),
                                kit::normal({9, 4}, DType::f64, 3)};
  for (const bool delta : {false, true})
    for (const Shape& shape : {Shape{2}, Shape{9, 2}, Shape{9, 6}}) {
      std::vector<Tensor> inputs = qkv;
      inputs.push_back(negative(shape, 4));
      inputs.push_back(kit::normal({9, 2}, DType::f64, 5, 0.3));
      const RecurrenceOptions options{.heads = 2, .scale = 0.5, .delta = delta};
      kit::expect_gradients(
          [&](const Vars& in) { return linear_recurrence(in[0], in[1], in[2], in[3], in[4], sequences, options); },
          inputs, delta ? "delta" : "sums");
    }
  kit::expect_gradients(
      [&](const Vars& in) {
        return linear_recurrence(in[0], in[0], in[1], {}, {}, sequences, {.heads = 2, .causal = false});
      },
      {qkv[0], qkv[2]}, "one in two roles, both ways");
}

TEST(LinearRecurrence, StatesContinueWhatWasThere) {
  const Tensor q = kit::normal({7, 4}, DType::f32, 3), v = kit::normal({7, 6}, DType::f32, 4);
  const RecurrenceOptions options{.heads = 2};
  const Tensor whole = linear_recurrence(q, q, v, {}, {}, Sequences({0, 3, 7}), options).value();
  const std::vector<Tensor> states{zeros({2, 6}, DType::f32), zeros({2, 6}, DType::f32)};
  const auto step = [&](const std::vector<int64_t>& rows, const Sequences& sequences) {
    const Tensor x = kit::rows_of(q, rows);
    return linear_recurrence(x, x, kit::rows_of(v, rows), {}, {}, sequences, options, states).value();
  };
  const Tensor first = step({0, 1, 3}, Sequences({0, 2, 3})), second = step({2, 4, 5, 6}, Sequences({0, 1, 4}, {2, 1}));
  EXPECT_EQ(
      kit::bit_difference(
          kit::concatenate({first.slice(0, 2), second.slice(0, 1), first.slice(2, 3), second.slice(1, 4)}), whole),
      "");
  EXPECT_EQ(kit::error_of([&] { linear_recurrence(q, q, v, {}, {}, Sequences::single(7), options, states); }),
            "linear_recurrence: one state a sequence: 1, got 2");
}

}  // namespace
}  // namespace lithe
