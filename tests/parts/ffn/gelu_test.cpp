#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Gelu {
  explicit Gelu(int64_t d, const std::string& options = "{}")
      : part(bench.make<Ffn>("gelu", {.hidden_size = d}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const { return part->forward({Var(x), Sequences::single(x.rows())}).value(); }
  kit::Bench bench;
  std::unique_ptr<Ffn> part;
};

// oracle: ffn.gelu
TEST(GeluFfn, MultipliesByTheNormalDistribution) {
  Gelu ffn(1, "{intermediate_size: 1}");
  for (const char* name : {"part.up.weight", "part.down.weight"}) kit::assign(ffn.bench[name], {1});
  for (const char* name : {"part.up.bias", "part.down.bias"}) kit::assign(ffn.bench[name], {0});
  // x Phi(x) with Phi(1) = 0.841344746, Phi(2) = 0.977249868, Phi(0.5) = 0.691462461.
  EXPECT_EQ(kit::close_to_printed(ffn(kit::tensor_f64({5, 1}, {1, -1, 2, 0.5, 0})),
                                  {0.841345, -0.158655, 1.954500, 0.345731, 0}, 6),
            "");
  EXPECT_EQ(kit::close_to_printed(ffn(kit::tensor_f64({2, 1}, {40, -40})), {40, 0}, 12), "");
}

TEST(GeluFfn, CountsItsParameters) {
  for (const auto& [d, d_ff] : {std::pair<int64_t, int64_t>{3, 7}, {8, 32}, {5, 1}}) {
    EXPECT_EQ(Gelu(d, cat("{intermediate_size: ", d_ff, "}")).bench.parameters().count(), 2 * d * d_ff + d + d_ff);
    EXPECT_EQ(Gelu(d).bench.parameters().count(), 8 * d * d + 5 * d);
  }
}

TEST(GeluFfn, OrderOfHiddenUnitsDoesNotMatter) {
  Gelu ffn(4, "{intermediate_size: 5}"), other(4, "{intermediate_size: 5}");
  const std::vector<int64_t> order{3, 1, 4, 0, 2};
  kit::assign(other.bench["part.up.weight"], kit::columns_of(ffn.bench["part.up.weight"], order));
  kit::assign(other.bench["part.up.bias"], kit::columns_of(ffn.bench["part.up.bias"].reshape({1, 5}), order));
  kit::assign(other.bench["part.down.weight"], kit::rows_of(ffn.bench["part.down.weight"], order));
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::close(other(x), ffn(x), 10), "");
}

TEST(GeluFfn, VeryNegativePreactivationsGiveTheBias) {
  Gelu ffn(3, "{intermediate_size: 6}");
  kit::assign(ffn.bench["part.up.bias"], std::vector<double>(6, -1000));
  const Tensor y = ffn(kit::normal({5, 3}, DType::f64, 1)), bias = ffn.bench["part.down.bias"].reshape({1, 3});
  for (int64_t n = 0; n < 5; ++n) EXPECT_EQ(kit::close(y.slice(n, n + 1), bias, 0), "");
}

TEST(GeluFfn, RowsInAnotherOrderGiveTheSameRowsInThatOrder) {
  const Gelu ffn(4);
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const std::vector<int64_t> order{2, 0, 4, 1, 3};
  EXPECT_EQ(kit::bit_difference(ffn(kit::rows_of(x, order)), kit::rows_of(ffn(x), order)), "");
}

}  // namespace
}  // namespace lithe
