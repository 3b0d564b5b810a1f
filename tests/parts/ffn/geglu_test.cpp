#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct GeGlu {
  explicit GeGlu(int64_t d, const std::string& options = "{}")
      : part(bench.make<Ffn>("geglu", {.hidden_size = d}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const { return part->forward({Var(x), Sequences::single(x.rows())}).value(); }
  kit::Bench bench;
  std::unique_ptr<Ffn> part;
};

TEST(GeGluFfn, GatesWithGelu) {
  // GELU(1) = 0.8413447461, GELU(-2) = -0.0455002639; by tanh 0.8411919906 and -0.0454023059; times 2 x times 3.
  const std::vector<std::pair<std::string, std::vector<double>>> cases{
      {"{intermediate_size: 1}", {0.8413447461, -0.0455002639}},
      {"{intermediate_size: 1, approximate: tanh}", {0.8411919906, -0.0454023059}}};
  for (const auto& [options, gelu] : cases) {
    GeGlu ffn(1, options);
    kit::assign(ffn.bench["part.gate.weight"], {1});
    kit::assign(ffn.bench["part.up.weight"], {2});
    kit::assign(ffn.bench["part.down.weight"], {3});
    EXPECT_EQ(kit::close_to_printed(ffn(kit::tensor_f64({3, 1}, {1, -2, 0})), {6 * gelu[0], -12 * gelu[1], 0}, 8), "");
  }
}

TEST(GeGluFfn, CountsParameters) {
  EXPECT_EQ(GeGlu(6).bench.parameters().count(), 3 * 6 * 16);
  EXPECT_EQ(GeGlu(6, "{intermediate_size: 5, bias: true}").bench.parameters().count(), 3 * 6 * 5 + 2 * 5 + 6);
}

}  // namespace
}  // namespace lithe
