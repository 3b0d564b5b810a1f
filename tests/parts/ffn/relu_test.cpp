#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Relu {
  explicit Relu(int64_t d, const std::string& options = "{}")
      : part(bench.make<Ffn>("relu", {.hidden_size = d}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const { return part->forward({Var(x), Sequences::single(x.rows())}).value(); }
  kit::Bench bench;
  std::unique_ptr<Ffn> part;
};

// oracle: ffn.relu
TEST(ReluFfn, IsTwoLinearMapsWithMaxBetween) {
  Relu ffn(2, "{intermediate_size: 3}");
  kit::assign(ffn.bench["part.up.weight"], {1, 2, -1, 0, 1, 1});
  kit::assign(ffn.bench["part.up.bias"], {0, -5, 1});
  kit::assign(ffn.bench["part.down.weight"], {1, 10, 2, 20, 3, 30});
  kit::assign(ffn.bench["part.down.bias"], {0.5, -0.5});
  // x = (1, 2): hidden (1, 4, 1) + (0, -5, 1) -> (1, 0, 2); y = (1 + 6, 10 + 60) + (0.5, -0.5).
  EXPECT_EQ(kit::bit_difference(ffn(kit::tensor_f64({1, 2}, {1, 2})), kit::tensor_f64({1, 2}, {7.5, 69.5})), "");
}

TEST(ReluFfn, CountsItsParameters) {
  for (const auto& [d, d_ff] : {std::pair<int64_t, int64_t>{3, 7}, {8, 32}, {5, 1}}) {
    EXPECT_EQ(Relu(d, cat("{intermediate_size: ", d_ff, "}")).bench.parameters().count(), 2 * d * d_ff + d + d_ff);
    EXPECT_EQ(Relu(d, cat("{intermediate_size: ", d_ff, ", bias: false}")).bench.parameters().count(), 2 * d * d_ff);
    EXPECT_EQ(Relu(d).bench.parameters().count(), 8 * d * d + 5 * d);  // d_ff = 4 d
  }
}

TEST(ReluFfn, OrderOfHiddenUnitsDoesNotMatter) {
  Relu ffn(4, "{intermediate_size: 5}"), other(4, "{intermediate_size: 5}");
  const std::vector<int64_t> order{3, 1, 4, 0, 2};
  kit::assign(other.bench["part.up.weight"], kit::columns_of(ffn.bench["part.up.weight"], order));
  kit::assign(other.bench["part.up.bias"], kit::columns_of(ffn.bench["part.up.bias"].reshape({1, 5}), order));
  kit::assign(other.bench["part.down.weight"], kit::rows_of(ffn.bench["part.down.weight"], order));
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::close(other(x), ffn(x), 10), "");
}

TEST(ReluFfn, HiddenUnitsCanBeScaledByPositiveNumbers) {
  Relu ffn(4, "{intermediate_size: 5}"), other(4, "{intermediate_size: 5}");
  for (const char* name : {"part.up.weight", "part.up.bias"})
    for (int64_t i = 0; i < ffn.bench[name].numel(); ++i)
      set_value(other.bench[name], i, 3 * value_at(ffn.bench[name], i));
  for (int64_t i = 0; i < 20; ++i)
    set_value(other.bench["part.down.weight"], i, value_at(ffn.bench["part.down.weight"], i) / 3);
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::close(other(x), ffn(x), 20), "");
}

TEST(ReluFfn, NegativePreactivationsGiveTheBias) {
  Relu ffn(3, "{intermediate_size: 6}");
  kit::assign(ffn.bench["part.up.bias"], std::vector<double>(6, -1000));
  const Tensor y = ffn(kit::normal({5, 3}, DType::f64, 1)), bias = ffn.bench["part.down.bias"].reshape({1, 3});
  for (int64_t n = 0; n < 5; ++n) EXPECT_EQ(kit::bit_difference(y.slice(n, n + 1), bias), "");
}

TEST(ReluFfn, RowsInAnotherOrderGiveTheSameRowsInThatOrder) {
  const Relu ffn(4);
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const std::vector<int64_t> order{2, 0, 4, 1, 3};
  EXPECT_EQ(kit::bit_difference(ffn(kit::rows_of(x, order)), kit::rows_of(ffn(x), order)), "");
}

}  // namespace
}  // namespace lithe
