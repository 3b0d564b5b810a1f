// Feed-forward layers of two linear maps with an activation between.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {

struct TwoMaps {
  TwoMaps(const std::string& type, int64_t d, const std::string& options = "{}")
      : part(bench.make<Ffn>(type, {.hidden_size = d}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const { return part->forward({Var(x), Sequences::single(x.rows())}).value(); }
  kit::Bench bench;
  std::unique_ptr<Ffn> part;
};

inline void expect_order_of_hidden_units_not_to_matter(const std::string& type) {
  TwoMaps ffn(type, 4, "{intermediate_size: 5}"), other(type, 4, "{intermediate_size: 5}");
  const std::vector<int64_t> order{3, 1, 4, 0, 2};
  kit::assign(other.bench["part.up.weight"], kit::columns_of(ffn.bench["part.up.weight"], order));
  kit::assign(other.bench["part.up.bias"], kit::columns_of(ffn.bench["part.up.bias"].reshape({1, 5}), order));
  kit::assign(other.bench["part.down.weight"], kit::rows_of(ffn.bench["part.down.weight"], order));
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::close(other(x), ffn(x), 10), "");
}

/// With hidden units far below 0.
inline void expect_the_bias_alone(const std::string& type) {
  TwoMaps ffn(type, 3, "{intermediate_size: 6}");
  kit::assign(ffn.bench["part.up.bias"], std::vector<double>(6, -1000));
  const Tensor y = ffn(kit::normal({5, 3}, DType::f64, 1)), bias = ffn.bench["part.down.bias"].reshape({1, 3});
  for (int64_t n = 0; n < 5; ++n) EXPECT_EQ(kit::close(y.slice(n, n + 1), bias, 0), "");
}

inline void expect_rows_in_another_order(const std::string& type) {
  const TwoMaps ffn(type, 4);
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const std::vector<int64_t> order{2, 0, 4, 1, 3};
  EXPECT_EQ(kit::bit_difference(ffn(kit::rows_of(x, order)), kit::rows_of(ffn(x), order)), "");
}

}  // namespace lithe
