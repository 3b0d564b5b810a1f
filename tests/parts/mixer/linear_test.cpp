#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct LinearBench {
  explicit LinearBench(bool causal, int64_t d = 4, int64_t tokens = 6) {
    mixer = bench.make<Mixer>("linear", {.hidden_size = d, .max_position_embeddings = tokens, .causal = causal});
    kit::randomise(bench.parameters(), 3);
  }
  Tensor operator()(const Tensor& x) { return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value(); }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: mixer.linear
TEST(LinearMixer, WithUnitMatricesIsTheIdentity) {
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  for (bool causal : {false, true}) {
    LinearBench linear(causal);
    kit::assign(linear.bench["part.tokens.weight"], kit::identity(6));
    kit::assign(linear.bench["part.hidden.weight"], kit::identity(4));
    EXPECT_EQ(kit::close(linear(x), x, 4), "");
    EXPECT_EQ(linear.bench.parameters().count(), 6 * 6 + 4 * 4);
  }
}

TEST(LinearMixer, IsTheProductOfItsMaps) {
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  for (bool causal : {false, true}) {
    LinearBench linear(causal);
    Tensor tokens = clone(linear.bench["part.tokens.weight"]);
    for (int64_t i = 0; i < 36; ++i)
      if (causal && i % 6 > i / 6) set_value(tokens, i, 0);
    const Tensor want = kit::product(tokens, kit::product(x, linear.bench["part.hidden.weight"]));
    EXPECT_EQ(kit::close(linear(x), want, 64), "");
    EXPECT_EQ(kit::close(linear(kit::sum(x, x)), kit::sum(want, want), 64), "");
  }
}

TEST(LinearMixer, RefusesSequencesBeyondItsMap) {
  LinearBench linear(true);
  EXPECT_THROW(linear(kit::normal({7, 4}, DType::f64, 1)), Error);
  EXPECT_EQ(linear.mixer->state_bytes({3, 2}, DType::bf16) / 2, 5 * 4);
}

}  // namespace
}  // namespace lithe
