#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t kMlmRows = 5, kMlmWidth = 4, kMlmVocabulary = 7;

// norm(gelu(x W + b)), in plain arithmetic: population variance, eps inside the root.
Tensor transformed(kit::Bench& bench, const Tensor& x, double eps) {
  const Tensor y = kit::product(x, bench["part.transform.weight"]);
  for (int64_t n = 0; n < x.rows(); ++n) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < kMlmWidth; ++c) {
      const double z = value_at(y, n * kMlmWidth + c) + value_at(bench["part.transform.bias"], c);
      set_value(y, n * kMlmWidth + c, z * 0.5 * std::erfc(-z / std::sqrt(2.0)));
      mean += value_at(y, n * kMlmWidth + c) / kMlmWidth;
    }
    for (int64_t c = 0; c < kMlmWidth; ++c) variance += std::pow(value_at(y, n * kMlmWidth + c) - mean, 2) / kMlmWidth;
    for (int64_t c = 0; c < kMlmWidth; ++c)
      set_value(
          y, n * kMlmWidth + c,
          (value_at(y, n * kMlmWidth + c) - mean) / std::sqrt(variance + eps) * value_at(bench["part.norm.weight"], c) +
              value_at(bench["part.norm.bias"], c));
  }
  return y;
}

struct Mlm {
  kit::Bench bench;
  Parameter* table = nullptr;
  std::unique_ptr<Head> head;
  explicit Mlm(bool tied, const std::string& options = "{}") {
    if (tied) table = bench.scope("table").parameter("weight", {kMlmVocabulary, kMlmWidth}, InitRole::embedding);
    head = bench.make<Head>("mlm", {.vocab_size = kMlmVocabulary, .hidden_size = kMlmWidth, .tied = table}, options);
    kit::randomise(bench.parameters(), 1);
  }
};

TEST(MlmHead, CountsItsParameters) {
  for (const auto& [d, V] : {std::array<int64_t, 2>{768, 50265}, {768, 30522}, {5, 7}})
    for (bool tied : {true, false}) {
      kit::Bench bench(DType::f32, DType::f32, Device::meta);
      Parameter* table = tied ? bench.scope("table").parameter("weight", {V, d}, InitRole::embedding) : nullptr;
      bench.make<Head>("mlm", {.vocab_size = V, .hidden_size = d, .tied = table});
      // d^2 + d, 2 d of the norm, V biases; one table, the embedding's or its own.
      EXPECT_EQ(bench.parameters().count(), d * d + d + 2 * d + V + V * d);
    }
}

TEST(MlmHead, LogitsAreTheTransformedRowsTimesTheTableAndABias) {
  for (const bool tied : {true, false})
    for (const double eps : {1e-12, 0.1}) {
      Mlm mlm(tied, cat("{eps: ", eps, "}"));
      const Tensor x = kit::normal({kMlmRows, kMlmWidth}, DType::f64, 2), rows = transformed(mlm.bench, x, eps);
      const Tensor want = empty({kMlmRows, kMlmVocabulary}, DType::f64);
      for (int64_t n = 0; n < kMlmRows; ++n)
        for (int64_t v = 0; v < kMlmVocabulary; ++v) {
          double sum = value_at(mlm.bench["part.bias"], v);
          for (int64_t c = 0; c < kMlmWidth; ++c)
            sum +=
                value_at(rows, n * kMlmWidth + c) * (tied ? value_at(mlm.bench["table.weight"], v * kMlmWidth + c)
                                                          : value_at(mlm.bench["part.weight"], c * kMlmVocabulary + v));
          set_value(want, n * kMlmVocabulary + v, sum);
        }
      // Some twenty roundings of numbers near 1; the norm divides by a deviation near 1/3.
      EXPECT_EQ(kit::close(mlm.head->logits({Var(x), Sequences::single(kMlmRows)}).value(), want, 64), "")
          << tied << eps;
    }
}

TEST(MlmHead, LossIsTheCrossEntropyOfTheLogits) {
  for (const bool tied : {true, false}) {
    const Mlm mlm(tied);
    const Sequences sequences({0, 2, kMlmRows});
    const Var x(kit::normal({kMlmRows, kMlmWidth}, DType::f64, 2));
    const Tensor labels = kit::ids_of({6, -1, 0, 3, -1}), rows = empty({kMlmRows}, DType::f64),
                 want_rows = empty_like(rows);
    LossSums sums, want;
    const Var loss = mlm.head->loss(
        {x, sequences}, {.labels = labels, .smoothing = 0.1, .scale = 0.25, .sums = &sums, .row_nll = rows});
    cross_entropy(mlm.head->logits({x, sequences}), labels, 0.1, 0.25, &want, want_rows);
    EXPECT_NEAR(sums.loss, want.loss, 64 * 0x1p-53 * want.loss);
    EXPECT_NEAR(sums.nll, want.nll, 64 * 0x1p-53 * want.nll);
    EXPECT_EQ(sums.labels, 3);
    EXPECT_NEAR(value_at(loss.value(), 0), 0.25 * want.loss, 16 * 0x1p-53 * want.loss);
    EXPECT_EQ(kit::close(rows, want_rows, 64), "");
  }
}

// The table's gradient has a share from the head alone here; tied or not, every parameter has one.
TEST(MlmHead, GradientsAgreeWithDifferences) {
  for (const bool tied : {true, false}) {
    Mlm mlm(tied);
    const Sequences sequences = Sequences::single(kMlmRows);
    std::string where;
    EXPECT_LE(
        kit::gradient_error(
            mlm.bench.parameters(),
            [&](const std::vector<Var>& in) {
              return std::vector<Var>{mlm.head->loss({in[0], sequences}, {.labels = kit::ids_of({6, -1, 0, 3, -1})})};
            },
            {kit::normal({kMlmRows, kMlmWidth}, DType::f64, 2)}, &where),
        1e-6)
        << where;
  }
}

// In bf16 the matrices have bf16 copies; biases and norms do not.
TEST(MlmHead, TrainsInBf16) {
  const auto run = [](DType dtype, DType compute) {
    kit::Bench bench(dtype, compute);
    const auto head = bench.make<Head>("mlm", {.vocab_size = kMlmVocabulary, .hidden_size = kMlmWidth});
    kit::randomise(bench.parameters(), 1);
    for (Parameter& p : bench.parameters().all())  // what all dtypes can hold
      kit::assign(p.master.value(), kit::values(convert(p.master.value(), DType::bf16)));
    bench.parameters().refresh_views();
    const Var x = Var::leaf(convert(kit::normal({kMlmRows, kMlmWidth}, DType::bf16, 2), compute));
    const Sequences sequences = Sequences::single(kMlmRows);
    std::map<std::string, Tensor> out;
    Tape tape;
    const Var loss = head->loss({x, sequences}, {.labels = kit::ids_of({6, -1, 0, 3, 2}), .scale = 0.25});
    out["loss"] = loss.value();
    tape.backward(loss);
    out["x"] = x.grad();
    for (const Parameter& p : bench.parameters().all()) out[p.name] = p.master.grad();
    return out;
  };
  const auto exact = run(DType::f64, DType::f64), got = run(DType::f32, DType::bf16);
  ASSERT_EQ(exact.size(), got.size());
  // Each number passes some ten results rounded to bf16 (half a unit in the last of 8 bits), and a norm.
  for (const auto& [name, want] : exact) {
    ASSERT_TRUE(got.at(name).defined()) << name;
    double largest = 0;
    for (int64_t i = 0; i < want.numel(); ++i) largest = std::max(largest, std::abs(value_at(want, i)));
    EXPECT_LE(kit::largest_difference(convert(got.at(name), DType::f64), want), 16 * 0x1p-8 * largest) << name;
  }
}

}  // namespace
}  // namespace lithe
