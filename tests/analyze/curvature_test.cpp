#include "lithe/analyze/curvature.h"

#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// x^T A x / 2 of a parameter x [1, n]; its gradient is x (A + A^T) / 2.
struct Quadratic {
  explicit Quadratic(const Tensor& matrix) : a(matrix) {
    bench.context().trainable = true;
    x = bench.scope().parameter("x", {1, a.rows()}, InitRole::matrix);
    kit::randomise(bench.parameters(), 3);
  }
  void gradients() const {
    const int64_t n = a.rows();
    const Tensor g = zeros({1, n}, DType::f64);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        set_value(
            g, i,
            value_at(g, i) + 0.5 * (value_at(a, i * n + j) + value_at(a, j * n + i)) * value_at(x->master.value(), j));
    x->master.ref()->grad = g;
  }
  std::vector<ParameterCurvature> probe(int64_t probes, uint64_t seed = 1) {
    return estimate_curvature(bench.parameters(), [this] { gradients(); }, {.probes = probes, .seed = seed});
  }
  kit::Bench bench;
  Parameter* x = nullptr;
  Tensor a;
};

// oracle: init.hessian_probe
TEST(Curvature, IsExactForEveryProbeOfADiagonalHessian) {
  const Tensor a = zeros({5, 5}, DType::f64);
  double trace = 0;
  for (int64_t i = 0; i < 5; ++i) set_value(a, i * 6, double(i * i) - 1), trace += double(i * i) - 1;
  Quadratic q(a);
  const Tensor before = clone(q.x->master.value());
  for (uint64_t seed = 1; seed <= 5; ++seed) EXPECT_NEAR(q.probe(1, seed)[0].trace, trace, 1e-9);
  EXPECT_EQ(kit::bit_difference(q.x->master.value(), before), "");
  EXPECT_FALSE(q.x->master.grad().defined());
}

// oracle: init.hessian_probe
TEST(Curvature, IsUnbiasedOtherwise) {
  Quadratic q(kit::normal({6, 6}, DType::f64, 7));
  double trace = 0;
  for (int64_t i = 0; i < 6; ++i) trace += value_at(q.a, i * 7);
  const ParameterCurvature c = q.probe(4000)[0];
  EXPECT_GT(c.standard_error, 0);
  EXPECT_LE(std::abs(c.trace - trace), 4 * c.standard_error);
  EXPECT_GT(std::abs(q.probe(1)[0].trace - trace), 1e-3);
}

kit::Batch batch() { return kit::random_batch({5, 6}, 11, 4); }

std::unique_ptr<Model> small() {
  auto model = std::make_unique<Model>(
      kit::model_config("{hidden_size: 8, num_hidden_layers: 1, vocab_size: 11, max_position_embeddings: 9, mixer: "
                        "{type: attention, num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 6}}"),
      ModelOptions{.dtype = DType::f64, .compute = DType::f64, .trainable = true});
  kit::randomise(model->parameters(), 3);
  return model;
}

GatherGradients gradients_of(Model& model) {
  return [&model] {
    Tape tape;
    const kit::Batch b = batch();
    tape.backward(kit::loss(model, b, kit::labels_for(model, b), 0, 0.1));
  };
}

// u^T (H v) = v^T (H u), up to the h^2 of the differences.
// oracle: init.hessian_probe
TEST(Curvature, TheHessianIsSymmetric) {
  const auto model = small();
  std::vector<Tensor> u, v;
  for (const Parameter& p : model->parameters().all()) {
    u.push_back(kit::normal(p.master.shape(), DType::f64, 5 + u.size()));
    v.push_back(kit::normal(p.master.shape(), DType::f64, 500 + u.size()));
  }
  const auto dot = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    double sum = 0;
    for (size_t k = 0; k < a.size(); ++k)
      for (int64_t i = 0; i < a[k].numel(); ++i) sum += value_at(a[k], i) * value_at(b[k], i);
    return sum;
  };
  const GatherGradients gradients = gradients_of(*model);
  const double uv = dot(u, hessian_product(model->parameters(), gradients, v, 1e-4)),
               vu = dot(v, hessian_product(model->parameters(), gradients, u, 1e-4));
  EXPECT_NEAR(uv, vu, 1e-5 * (1 + std::abs(uv)));
  EXPECT_GT(std::abs(uv), 1e-3);
}

TEST(Curvature, GainsFallWithIt) {
  const auto model = small();
  const auto curvature = estimate_curvature(model->parameters(), gradients_of(*model), {.probes = 4});
  const std::map<std::string, double> factors = rescale_by_curvature(model->parameters(), curvature);
  EXPECT_GE(factors.size(), 2u);
  for (const ParameterCurvature& a : curvature)
    for (const ParameterCurvature& b : curvature)
      if (factors.count(a.name) && factors.count(b.name) && a.trace / double(a.numel) < b.trace / double(b.numel)) {
        EXPECT_GE(factors.at(a.name), factors.at(b.name)) << a.name << " " << b.name;
      }
  const std::string error =
      kit::coded_error_of([&] { estimate_curvature(model->parameters(), gradients_of(*model), {.probes = 0}); });
  EXPECT_EQ(error.substr(0, 2), "2 ") << error;
}

}  // namespace
}  // namespace lithe
