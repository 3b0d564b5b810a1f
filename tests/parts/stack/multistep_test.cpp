#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// Layers of one sub-layer that adds f of its rows.
struct Field final : Layers {
  Field(int64_t layers, std::function<Var(const Var&)> added) : n(layers), f(std::move(added)) {}
  int64_t n;
  std::function<Var(const Var&)> f;
  mutable int64_t evaluations = 0;
  int64_t count() const override { return n; }
  Rows run(int64_t, const Rows& x, const Pass&, const std::vector<double>&) const override {
    return {add(x.x, f(x.x)), x.sequences};
  }
  void skip(int64_t, const Rows&, const Pass&) const override {}
  int64_t sub_layers(int64_t) const override { return 1; }
  Var change(int64_t, int64_t, const Rows& x, const Pass&) const override {
    ++evaluations;
    return f(x.x);
  }
};

Tensor run(const std::string& options, const Field& field, const Tensor& x, const std::string& type = "multistep") {
  kit::Bench bench;
  const auto stack = bench.make<Stack>(type, {.hidden_size = x.cols(), .num_hidden_layers = field.n}, options);
  return stack->forward(field, {Var(x), Sequences::single(x.rows())}, Pass()).x.value();
}

const Tensor& one() {
  static const Tensor x = kit::tensor_f64({1, 1}, {1});
  return x;
}

// oracle: ode.multistep
TEST(Multistep, OfFirstOrderIsThePlainStack) {
  const Tensor x = kit::normal({3, 4}, DType::f64, 1);
  const Field field(4, [](const Var& at) { return mul(at, at); });
  EXPECT_EQ(kit::bit_difference(run("{order: 1}", field, x), run("{}", field, x, "plain")), "");
}

// oracle: ode.multistep
TEST(Multistep, EvaluatesEachSubLayerOnce) {
  for (const int64_t order : {1, 2, 3}) {
    const Field field(7, [](const Var& at) { return at; });
    run(cat("{order: ", order, "}"), field, one());
    EXPECT_EQ(field.evaluations, 7);
  }
}

// oracle: ode.multistep
TEST(Multistep, StepsOfAConstantAddUp) {
  for (const std::string options :
       {"{order: 1}", "{order: 2}", "{order: 3}", "{order: 2, learn: true}", "{order: 3, learn: true}"})
    EXPECT_NEAR(value_at(run(options, Field(5, [](const Var& at) { return add(at, at, 0, 0); }), one()), 0), 1, 1e-14);
  const Tensor c = kit::tensor_f64({1, 1}, {0.3});
  for (const std::string options : {"{order: 2}", "{order: 3}", "{order: 3, learn: true}"})
    EXPECT_NEAR(value_at(run(options, Field(5, [&](const Var&) { return Var(c); }), one()), 0), 1 + 5 * 0.3, 1e-14)
        << options;
}

// The error of dz/dt = z on [0, 1] after n steps.
double global_error(int64_t order, int64_t n) {
  const Field field(n, [](const Var& at) { return at; });
  return std::abs(value_at(run(cat("{order: ", order, ", step: ", 1.0 / double(n), "}"), field, one()), 0) -
                  std::exp(1.0));
}

// oracle: ode.multistep
TEST(Multistep, OfSecondOrderConvergesWithSecondOrder) {
  EXPECT_NEAR(global_error(1, 128) / global_error(1, 256), 2, 0.05);
  EXPECT_NEAR(global_error(2, 128) / global_error(2, 256), 4, 0.1);
}

// oracle: ode.multistep
TEST(Multistep, LearnsTwoNumbersAStep) {
  kit::Bench bench;
  bench.make<Stack>("multistep", {.hidden_size = 4, .num_hidden_layers = 3}, "{order: 3, learn: true}");
  EXPECT_EQ(bench.parameters().count(), 6);
  const Tensor x = kit::normal({3, 4}, DType::f64, 1);
  const Field field(6, [](const Var& at) { return mul(at, at); });
  EXPECT_LE(kit::largest_difference(run("{order: 3, step: 0.1, learn: true}", field, x),
                                    run("{order: 3, step: 0.1}", field, x)),
            1e-13);
}

}  // namespace
}  // namespace lithe
