#include "lithe/train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// One matrix (decayed) and one vector (not), in f64.
struct Two {
  Two() {
    matrix = bench.scope().parameter("matrix", {2, 3}, InitRole::matrix);
    vector = bench.scope().parameter("vector", {4}, InitRole::zeros);
    for (int64_t i = 0; i < 6; ++i) set_value(matrix->master.value(), i, 0.5 + 0.1 * double(i));
    for (int64_t i = 0; i < 4; ++i) set_value(vector->master.value(), i, -1 - double(i));
  }
  void gradient(Parameter* p, const std::vector<double>& values) {
    p->master.ref()->grad = kit::tensor_f64(p->master.value().shape(), values);
  }
  kit::Bench bench;
  Parameter *matrix, *vector;
};

// Multiples of the largest number's fifteenth.
class Grid final : public View {
 public:
  explicit Grid(const Tensor& master, DType dtype) : grid_(empty(master.shape(), dtype)) {}
  void refresh(const Tensor& master) override {
    ++refreshed;
    double largest = 0;
    for (int64_t i = 0; i < master.numel(); ++i) largest = std::max(largest, std::abs(value_at(master, i)));
    const double unit = largest / 15;
    for (int64_t i = 0; i < master.numel(); ++i) set_value(grid_, i, std::nearbyint(value_at(master, i) / unit) * unit);
  }
  Var read(const Var& master) const override { return Var(grid_, master.ref()); }
  int64_t bytes() const override { return grid_.bytes(); }
  int refreshed = 0;

 private:
  Tensor grid_;
};

TrainConfig config(double weight_decay = 0, double max_grad_norm = 0) {
  TrainConfig c;
  c.weight_decay = weight_decay;
  c.max_grad_norm = max_grad_norm;
  return c;
}

// oracle: train.adam
TEST(AdamW, TheFirstStepMovesEachCoordinateByTheRate) {
  Two t;
  const std::vector<double> before = kit::values(t.matrix->master.value());
  AdamW optimizer(t.bench.parameters(), config());
  const std::vector<double> g = {3, -0.02, 1e-5, -7, 1, 100};
  t.gradient(t.matrix, g);
  optimizer.step(1, 0.01, optimizer.gradient_norm());
  const std::vector<double> after = kit::values(t.matrix->master.value());
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(after[i] - before[i], -0.01 * g[i] / (std::abs(g[i]) + 1e-8), 1e-15) << i;
  EXPECT_FALSE(t.matrix->master.grad().defined());  // used up
}

TEST(AdamW, AConstantGradientGivesConstantSteps) {
  Two t;
  AdamW optimizer(t.bench.parameters(), config());
  std::vector<double> last = kit::values(t.matrix->master.value());
  for (int64_t step = 1; step <= 20; ++step) {
    t.gradient(t.matrix, {2, -2, 0.5, -0.5, 10, 0.01});
    optimizer.step(step, 0.003, optimizer.gradient_norm());
    const std::vector<double> now = kit::values(t.matrix->master.value());
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(std::abs(now[i] - last[i]), 0.003, 1e-8) << step << " " << i;
    last = now;
  }
}

// Products read a grid of integers, gradients go straight into the master, and the optimiser does not know.
TEST(Views, AMapLearnsThroughAGridOfIntegers) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    kit::Bench bench(DType::f32, compute);
    const Linear map(bench.scope(), 6, 4, false);
    const auto grid = std::make_shared<Grid>(map.weight->master.value(), compute);
    map.weight->read_through(grid);
    EXPECT_EQ(grid->refreshed, 1);
    AdamW optimizer(bench.parameters(), config());
    EXPECT_FALSE(map.weight->rest.defined()) << "a grid is not the upper half of its master";
    const Tensor x = kit::normal({32, 6}, compute, 3), goal = kit::normal({6, 4}, compute, 5);
    const Tensor y = linear(Var(x), Var(goal)).value();
    double first = 0, last = 0;
    for (int64_t step = 1; step <= 200; ++step) {
      {
        Tape tape;
        const Var apart = add(map(Var(x)), Var(y), 1, -1), loss = sum(mul(apart, apart));
        (step == 1 ? first : last) = value_at(loss.value(), 0);
        const Tensor apart_twice = clone(apart.value());
        tape.backward(loss);
        if (step == 1) {  // x^T dy of the grid's products, in the master's type
          const Tensor g = map.weight->master.grad();
          ASSERT_EQ(g.dtype(), DType::f32);
          for (int64_t i = 0; i < 24; ++i) {
            double want = 0;
            for (int64_t n = 0; n < 32; ++n)
              want += 2 * value_at(x, n * 6 + i / 4) * value_at(apart_twice, n * 4 + i % 4);
            EXPECT_NEAR(value_at(g, i), want, (compute == DType::f32 ? 1e-4 : 0.05) * (1 + std::abs(want)));
          }
        }
      }
      optimizer.step(step, 0.02, optimizer.gradient_norm());
      EXPECT_EQ(grid->refreshed, step + 1);
    }
    EXPECT_LT(last, 0.05 * first) << compute;
    double off_grid = 0;
    const Tensor now = map.weight->var().value(), master = map.weight->master.value();
    for (int64_t i = 0; i < 24; ++i) off_grid = std::max(off_grid, std::abs(value_at(now, i) - value_at(master, i)));
    EXPECT_GT(off_grid, 1e-3) << "the master keeps what the grid rounds away";
  }
}

TEST(AdamW, DecayAloneMultipliesMatricesOnly) {
  Two t;
  const std::vector<double> matrix = kit::values(t.matrix->master.value()),
                            vector = kit::values(t.vector->master.value());
  AdamW optimizer(t.bench.parameters(), config(0.1));
  t.gradient(t.matrix, std::vector<double>(6, 0));
  t.gradient(t.vector, std::vector<double>(4, 0));
  optimizer.step(1, 0.02, 0);
  for (size_t i = 0; i < 6; ++i)
    EXPECT_DOUBLE_EQ(kit::values(t.matrix->master.value())[i], matrix[i] * (1 - 0.02 * 0.1));
  EXPECT_EQ(kit::values(t.vector->master.value()), vector);
}

TEST(AdamW, ClippingKeepsTheDirectionAndOnlyActsAboveTheLimit) {
  // Epsilon is so large that a step is proportional to the (clipped) gradient.
  const auto moved = [](double limit) {
    Two t;
    TrainConfig c = config(0, limit);
    c.adam_epsilon = 1e9;
    AdamW optimizer(t.bench.parameters(), c);
    const std::vector<double> before = kit::values(t.matrix->master.value());
    t.gradient(t.matrix, {3, 0, 0, 0, 0, 0});
    t.gradient(t.vector, {4, 0, 0, 0});
    EXPECT_DOUBLE_EQ(optimizer.gradient_norm(), 5);
    optimizer.step(1, 1e9, optimizer.gradient_norm());
    return before[0] - kit::values(t.matrix->master.value())[0];
  };
  EXPECT_NEAR(moved(0), 3, 1e-6);    // off
  EXPECT_NEAR(moved(5.1), 3, 1e-6);  // below the limit: as it is
  EXPECT_NEAR(moved(1), 0.6, 1e-6);  // norm 5 -> 1
  EXPECT_NEAR(moved(2.5), 1.5, 1e-6);
}

TEST(AdamW, TheNormShowsAnInfiniteGradient) {
  Two t;
  AdamW optimizer(t.bench.parameters(), config());
  t.gradient(t.matrix, {1, 2, INFINITY, 0, 0, 0});
  EXPECT_FALSE(std::isfinite(optimizer.gradient_norm()));
}

TEST(AdamW, AMovingAverageStandsInTheWeightsPlaceWhileExchanged) {
  Two t;
  TrainConfig c = config();
  c.ema_decay = 0.5;
  AdamW optimizer(t.bench.parameters(), c);
  double average = 0;
  for (int64_t step = 1; step <= 40; ++step) {
    t.gradient(t.matrix, {2, -2, 0.5, -0.5, 10, 0.01});
    optimizer.step(step, 0.01, optimizer.gradient_norm());
    optimizer.average(step);
    const double decay = step == 1 ? 0 : std::min(0.5, double(1 + step) / double(10 + step));
    average = decay * average + (1 - decay) * value_at(t.matrix->master.value(), 3);
  }
  const std::vector<double> last = kit::values(t.matrix->master.value()),
                            vector = kit::values(t.vector->master.value());
  optimizer.exchange();
  EXPECT_NEAR(value_at(t.matrix->master.value(), 3), average, 1e-12);
  EXPECT_NE(average, last[3]);
  EXPECT_EQ(kit::values(t.vector->master.value()), vector);  // never moved
  optimizer.exchange();
  EXPECT_EQ(kit::values(t.matrix->master.value()), last);
  EXPECT_TRUE(optimizer.state().count("average.part.matrix") || optimizer.state().count("average.matrix"));
}

}  // namespace
}  // namespace lithe
