#include "lithe/nn/module.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TEST(Parameters, HaveTheirPathAsName) {
  kit::Bench bench;
  const Scope scope = bench.scope("layers") / "3" / "ffn";
  const Parameter* weight = (scope / "up").parameter("weight", {2, 3}, InitRole::matrix);
  const Parameter* bias = (scope / "up").parameter("bias", {3}, InitRole::zeros);
  EXPECT_EQ(weight->name, "layers.3.ffn.up.weight");
  EXPECT_TRUE(weight->decay);
  EXPECT_FALSE(bias->decay);  // no decay on vectors
  EXPECT_EQ(bench.parameters().count(), 9);
  EXPECT_EQ(bench.parameters().find("layers.3.ffn.up.bias"), bias);
  EXPECT_EQ(bench.parameters().find("up"), nullptr);
  try {
    (scope / "up").parameter("weight", {2, 3}, InitRole::matrix);
    FAIL() << "two parameters of one name";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "model: two parameters are named 'layers.3.ffn.up.weight'");
  }
}

TEST(Parameters, AreBookedAsWeightsAndTheirGradientsAsGradients) {
  Ledger& book = ledger(Device::cpu);
  const int64_t weights = book.current(MemoryClass::weights), gradients = book.current(MemoryClass::gradients);
  kit::Bench bench(DType::f32, DType::f32);
  const Parameter* p = bench.scope().parameter("weight", {64, 64}, InitRole::matrix);
  EXPECT_EQ(book.current(MemoryClass::weights) - weights, 64 * 64 * 4);
  Tape tape;
  tape.backward(p->var(), kit::normal({64, 64}, DType::f32, 1));
  EXPECT_EQ(book.current(MemoryClass::gradients) - gradients, 64 * 64 * 4);
}

TEST(Parameters, Bf16ModelsReadRoundedViewsAndGatherInF32) {
  kit::Bench bench(DType::f32, DType::bf16);
  Parameter* matrix = bench.scope().parameter("weight", {3, 4}, InitRole::matrix);
  const Parameter* vector = bench.scope().parameter("bias", {4}, InitRole::ones);
  EXPECT_EQ(matrix->var().dtype(), DType::bf16);
  EXPECT_EQ(vector->var().dtype(), DType::f32);
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(value_at(matrix->var().value(), i), double(float(bf16(float(value_at(matrix->master.value(), i))))));
  set_value(matrix->master.value(), 0, 5.001);
  EXPECT_NE(value_at(matrix->var().value(), 0), 5);
  bench.parameters().refresh_views();
  EXPECT_EQ(value_at(matrix->var().value(), 0), 5);
  Tape tape;
  tape.backward(matrix->var(), kit::normal({3, 4}, DType::bf16, 1));
  EXPECT_EQ(matrix->master.grad().dtype(), DType::f32);
}

TEST(Parameters, WideOnesAreReadAsTheyAre) {
  kit::Bench bench(DType::f32, DType::bf16);
  const Parameter* taps = bench.scope().parameter("taps", {3, 4}, InitRole::embedding, {.wide = true});
  EXPECT_EQ(taps->var().dtype(), DType::f32);
  EXPECT_EQ(taps->bytes(), 3 * 4 * 4);
}

TEST(Parameters, KnowTheirAxesAndWhetherTheyJoinTheResidualStream) {
  kit::Bench bench;
  const Linear map(bench.scope("out"), Axis::ffn(2), Axis::hidden(3), true, InitRole::residual_output);
  EXPECT_EQ(map.weight->axes, (Axes{Axis::ffn(2), Axis::hidden(3)}));
  EXPECT_EQ(map.bias->axes, (Axes{Axis::hidden(3)}));
  EXPECT_EQ(map.weight->role, InitRole::residual_output);
  EXPECT_EQ(map.bias->role, InitRole::zeros);
  EXPECT_TRUE(map.weight->joins && map.bias->joins);
  const Linear inner(bench.scope("in"), Axis::hidden(3), Axis::ffn(2), true);
  EXPECT_FALSE(inner.weight->joins || inner.bias->joins);
  bench.scope("norm").couples({Dimension::hidden});
  ASSERT_EQ(bench.parameters().couplings().size(), 1u);
  EXPECT_EQ(bench.parameters().couplings()[0].path, "norm");
}

TEST(Parameters, AClearedRowIsZeroInTheView) {
  kit::Bench bench(DType::f32, DType::bf16);
  Parameter* table = bench.scope().parameter("weight", {3, 2}, InitRole::embedding);
  table->clear_row(1);
  for (const Tensor& x : {table->master.value(), table->var().value()}) {
    EXPECT_NE(value_at(x, 0), 0);
    EXPECT_EQ(value_at(x, 2), 0);
    EXPECT_EQ(value_at(x, 3), 0);
  }
}

TEST(Parameters, OfAModelForInferenceGatherNothing) {
  kit::Bench bench;
  bench.context().trainable = false;
  EXPECT_FALSE(bench.scope().parameter("weight", {2, 2}, InitRole::matrix)->var().needs_grad());
}

TEST(Parameters, StoredInBf16KeepVectorsWide) {
  kit::Bench bench(DType::bf16, DType::bf16);
  EXPECT_EQ(bench.scope().parameter("weight", {2, 2}, InitRole::matrix)->var().dtype(), DType::bf16);
  EXPECT_EQ(bench.scope().parameter("bias", {2}, InitRole::zeros)->var().dtype(), DType::f32);
}

TEST(Linear, MapsRowsByWeightInByOut) {
  kit::Bench bench;
  const Linear map(bench.scope(), 2, 3, true);
  EXPECT_EQ(map.weight->master.shape(), (Shape{2, 3}));
  kit::assign(map.weight->master.value(), {1, 2, 3, 10, 20, 30});
  kit::assign(map.bias->master.value(), {1, 0, -1});
  EXPECT_EQ(kit::values(map(Var(kit::tensor_f64({1, 2}, {1, 2}))).value()), (std::vector<double>{22, 42, 62}));
  EXPECT_EQ(Linear(bench.scope("other"), 2, 3, false).bias, nullptr);
}

// Masks follow place, seed and step, so that steps differ and a step can be repeated.
TEST(DropoutPlace, IsKeyedByPlaceSeedAndStep) {
  kit::Bench bench;
  const auto masked = [&](const std::string& path, int64_t layer, uint64_t seed, uint64_t step) {
    step_context() = {seed, step};
    const Dropout place(bench.scope(path).in_layer(layer), 0.5);
    const Tape tape;
    const Tensor y = place(Var::leaf(kit::normal({8, 8}, DType::f64, 1))).value();
    step_context() = {};
    return y;
  };
  const Tensor first = masked("a", 1, 2, 3);
  EXPECT_EQ(kit::bit_difference(first, masked("a", 1, 2, 3)), "");
  for (const Tensor& other : {masked("b", 1, 2, 3), masked("a", 2, 2, 3), masked("a", 1, 3, 3), masked("a", 1, 2, 4)})
    EXPECT_NE(kit::bit_difference(first, other), "");
}

}  // namespace
}  // namespace lithe
