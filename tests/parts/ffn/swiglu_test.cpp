#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct SwiGlu {
  explicit SwiGlu(int64_t d, const std::string& options = "{}")
      : part(bench.make<Ffn>("swiglu", {.hidden_size = d}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const { return part->forward({Var(x), Sequences::single(x.rows())}).value(); }
  kit::Bench bench;
  std::unique_ptr<Ffn> part;
};

// oracle: ffn.swiglu
TEST(SwiGluFfn, GatesWithSiLU) {
  SwiGlu ffn(1, "{intermediate_size: 1}");
  kit::assign(ffn.bench["part.gate.weight"], {1});
  kit::assign(ffn.bench["part.up.weight"], {2});
  kit::assign(ffn.bench["part.down.weight"], {3});
  // SiLU(x) = x / (1 + e^-x): SiLU(1) = 0.731059, SiLU(-2) = -0.238406; times 2 x times 3.
  EXPECT_EQ(
      kit::close_to_printed(ffn(kit::tensor_f64({3, 1}, {1, -2, 0})), {6 * 0.7310585786, -12 * -0.2384058440, 0}, 8),
      "");
}

TEST(SwiGluFfn, BiasesJoinTheThreeMaps) {
  SwiGlu ffn(1, "{intermediate_size: 1, bias: true}");
  EXPECT_EQ(ffn.bench.parameters().count(), 3 + 1 + 1 + 1);
  for (const char* map : {"gate", "up", "down"}) {
    kit::assign(ffn.bench[cat("part.", map, ".weight")], {0});
    kit::assign(ffn.bench[cat("part.", map, ".bias")], {2});
  }
  // SiLU(2) 2 0 + 2, then SiLU(2) 2 1 + 2.
  EXPECT_EQ(kit::close_to_printed(ffn(kit::tensor_f64({1, 1}, {5})), {2}, 8), "");
  kit::assign(ffn.bench["part.down.weight"], {1});
  EXPECT_EQ(kit::close_to_printed(ffn(kit::tensor_f64({1, 1}, {5})), {4 * 0.8807970780 + 2}, 8), "");
}

TEST(SwiGluFfn, BiasesHaveGradients) {
  SwiGlu ffn(4, "{intermediate_size: 5, bias: true}");
  std::string where;
  EXPECT_LE(kit::gradient_error(
                ffn.bench.parameters(),
                [&](const std::vector<Var>& in) {
                  return std::vector<Var>{ffn.part->forward({in[0], Sequences::single(in[0].rows())})};
                },
                {kit::normal({6, 4}, DType::f64, 1)}, &where),
            1e-6)
      << where;
}

TEST(SwiGluFfn, HasThreeMatricesAndNoBiases) {
  for (const auto& [d, d_ff] : {std::pair<int64_t, int64_t>{3, 7}, {8, 32}, {5, 1}})
    EXPECT_EQ(SwiGlu(d, cat("{intermediate_size: ", d_ff, "}")).bench.parameters().count(), 3 * d * d_ff);
  // floor(8 d / 3) by default: the parameters of a relu layer of 4 d, up to rounding.
  EXPECT_EQ(SwiGlu(12).bench.parameters().count(), 8 * 12 * 12);
  EXPECT_EQ(SwiGlu(10).bench.parameters().count(), 3 * 10 * 26);
}

TEST(SwiGluFfn, OrderOfHiddenUnitsDoesNotMatter) {
  SwiGlu ffn(4, "{intermediate_size: 5}"), other(4, "{intermediate_size: 5}");
  const std::vector<int64_t> order{3, 1, 4, 0, 2};
  for (const char* name : {"part.gate.weight", "part.up.weight"})
    kit::assign(other.bench[name], kit::columns_of(ffn.bench[name], order));
  kit::assign(other.bench["part.down.weight"], kit::rows_of(ffn.bench["part.down.weight"], order));
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::close(other(x), ffn(x), 10), "");
}

TEST(SwiGluFfn, IsLinearInTheUpwardMap) {
  SwiGlu ffn(4, "{intermediate_size: 5}"), other(4, "{intermediate_size: 5}");
  for (int64_t i = 0; i < 20; ++i) {
    set_value(other.bench["part.up.weight"], i, 8 * value_at(ffn.bench["part.up.weight"], i));
    set_value(other.bench["part.down.weight"], i, value_at(ffn.bench["part.down.weight"], i) / 8);
  }
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(other(x), ffn(x)), "");  // powers of two round nothing
  kit::assign(other.bench["part.gate.weight"], std::vector<double>(20, 0));
  EXPECT_EQ(kit::close(other(x), zeros({6, 4}, DType::f64), 0), "");  // SiLU(0) = 0
}

TEST(SwiGluFfn, RowsInAnotherOrderGiveTheSameRowsInThatOrder) {
  const SwiGlu ffn(4);
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const std::vector<int64_t> order{2, 0, 4, 1, 3};
  EXPECT_EQ(kit::bit_difference(ffn(kit::rows_of(x, order)), kit::rows_of(ffn(x), order)), "");
}

}  // namespace
}  // namespace lithe
