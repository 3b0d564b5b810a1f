#include <gtest/gtest.h>

#include <cmath>

#include "lithe/kernels/hadamard/reference.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

/// H [order, order] cut to its first d rows and columns, times `scale`.
Tensor matrix(int64_t d, int64_t order, double scale) {
  const kernels::ref::HadamardMatrix sign(order);
  const Tensor h = empty({d, d}, DType::f64);
  for (int64_t i = 0; i < d * d; ++i) set_value(h, i, scale * sign(i / d, i % d));
  return h;
}

struct Projection {
  explicit Projection(int64_t d, const std::string& options = "{}")
      : part(bench.make<Output>("hadamard", {.context = d, .hidden_size = d}, options)) {}
  Tensor operator()(const Tensor& x) const { return part->forward(Var(x)).value(); }
  kit::Bench bench;
  std::unique_ptr<Output> part;
};

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
    return error.what();
  }
  return "taken";
}

// oracle: proj.hadamard
TEST(HadamardOutput, IsADenseProjectionByTheScaledMatrix) {
  for (const int64_t d : {1, 16, 24, 20}) {
    Projection fixed(d);
    kit::randomise(fixed.bench.parameters(), 1);
    kit::Bench bench;
    const auto dense = bench.make<Output>("dense", {.context = d, .hidden_size = d, .bias = true});
    const Tensor weight = matrix(d, d, 1 / std::sqrt(double(d))), alpha = fixed.bench["part.alpha"];
    for (int64_t i = 0; i < d * d; ++i) set_value(weight, i, value_at(weight, i) * value_at(alpha, i % d));
    kit::assign(bench["part.weight"], weight);
    kit::assign(bench["part.bias"], fixed.bench["part.beta"]);
    const Tensor x = kit::normal({5, d}, DType::f64, 2);
    EXPECT_EQ(kit::close(fixed(x), dense->forward(Var(x)).value(), 2 * double(d) + 4), "") << d;
  }
}

// oracle: proj.hadamard
TEST(HadamardOutput, KeepsNormsAndInnerProductsAtTheStart) {
  const int64_t d = 48;
  const Tensor x = kit::normal({2, d}, DType::f64, 3), y = Projection(d)(x);
  const auto dot = [&](const Tensor& t, int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += value_at(t, a * d + c) * value_at(t, b * d + c);
    return sum;
  };
  const double size = std::sqrt(dot(x, 0, 0) * dot(x, 1, 1)), bound = 4 * double(d) * 0x1p-53 * size;
  EXPECT_NEAR(dot(y, 0, 1), dot(x, 0, 1), bound);
  EXPECT_NEAR(dot(y, 0, 0), dot(x, 0, 0), 2 * bound);
}

// oracle: proj.hadamard
TEST(HadamardOutput, EveryOutputDependsOnEveryHeadEqually) {
  const int64_t d = 24;
  Projection part(d);
  kit::randomise(part.bench.parameters(), 4);
  const Tensor none = zeros({d, d}, DType::f64), jacobian = part(kit::identity(d)), at_zero = part(none);
  for (int64_t i = 0; i < d; ++i)
    for (int64_t c = 0; c < d; ++c)
      EXPECT_NEAR(std::abs(value_at(jacobian, i * d + c) - value_at(at_zero, i * d + c)),
                  std::abs(value_at(part.bench["part.alpha"], c)) / std::sqrt(double(d)), 1e-14);
}

// oracle: proj.hadamard
TEST(HadamardOutput, WithoutAlphaIsBeta) {
  const int64_t d = 16;
  Projection part(d);
  kit::randomise(part.bench.parameters(), 5);
  kit::assign(part.bench["part.alpha"], std::vector<double>(size_t(d), 0));
  const Tensor y = part(kit::normal({3, d}, DType::f64, 6));
  for (int64_t i = 0; i < 3 * d; ++i) EXPECT_EQ(value_at(y, i), value_at(part.bench["part.beta"], i % d));
}

// oracle: proj.hadamard
TEST(HadamardOutput, HasTwoVectorsAndNoMatrix) {
  for (const int64_t d : {16, 24, 40}) {
    Projection part(d);
    EXPECT_EQ(part.bench.parameters().count(), 2 * d);
    for (const Parameter& p : part.bench.parameters().all()) {
      EXPECT_EQ(p.master.shape(), Shape{d}) << p.name;
      EXPECT_FALSE(p.decay) << p.name;
    }
  }
  // The block saves d^2 - 2d parameters, and d more where the baseline has a bias.
  const auto count = [](const std::string& output) {
    return Model(kit::model_config("{vocab_size: 5, hidden_size: 24, num_hidden_layers: 2, max_position_embeddings: 4, "
                                   "mixer: {type: attention, num_attention_heads: 4, " +
                                   output + "}}"),
                 {})
        .parameters()
        .count();
  };
  EXPECT_EQ(count("output: dense") - count("output: hadamard"), 2 * (24 * 24 - 2 * 24));
  EXPECT_EQ(count("output: dense, output_bias: true") - count("output: hadamard, output_bias: true"),
            2 * (24 * 24 - 24));
}

// oracle: proj.hadamard
TEST(HadamardOutput, Gradients) {
  for (const char* options : {"{}", "{scale: inverse}", "{transform: pad}"}) {
    Projection part(20, options);
    kit::randomise(part.bench.parameters(), 7);
    std::string where;
    const double error = kit::gradient_error(
        part.bench.parameters(),
        [&](const std::vector<Var>& in) { return std::vector<Var>{part.part->forward(in[0])}; },
        {kit::normal({3, 20}, DType::f64, 8)}, &where);
    EXPECT_LE(error, 1e-7) << options << ": " << where;
  }
}

TEST(HadamardOutput, ScalesAsChosen) {
  const Tensor x = kit::normal({2, 16}, DType::f64, 9);
  const auto want = [&](double scale) { return kit::product(x, matrix(16, 16, scale)); };
  EXPECT_EQ(kit::close(Projection(16)(x), want(0.25), 20), "");
  EXPECT_EQ(kit::close(Projection(16, "{scale: inverse}")(x), want(1.0 / 16), 20), "");
  EXPECT_EQ(kit::close(Projection(16, "{scale: one}")(x), want(1), 20), "");
}

TEST(HadamardOutput, StartsAsChosen) {
  kit::Bench bench;
  bench.context().layers = 8;
  const auto part = bench.make<Output>("hadamard", {.context = 4, .hidden_size = 4}, "{init: residual}");
  EXPECT_EQ(kit::values(bench["part.alpha"]), std::vector<double>(4, 0.25));
  EXPECT_EQ(kit::values(bench["part.beta"]), std::vector<double>(4, 0));
  EXPECT_EQ(kit::values(Projection(4).bench["part.alpha"]), std::vector<double>(4, 1));
}

// oracle: had.pad
TEST(HadamardOutput, PadsWidthsThatHaveNoMatrix) {
  const Tensor x = kit::normal({3, 15}, DType::f64, 10);
  EXPECT_EQ(kit::close(Projection(15, "{transform: pad}")(x), kit::product(x, matrix(15, 16, 0.25)), 20), "");
  const Tensor wide = kit::normal({3, 32}, DType::f64, 11);
  EXPECT_EQ(kit::bit_difference(Projection(32, "{transform: pad}")(wide), Projection(32)(wide)), "");
}

TEST(HadamardOutput, RefusesWhatCannotBeBuilt) {
  EXPECT_EQ(refusal([] { Projection(15); }),
            "output: no Hadamard matrix of order 15 can be built: orders are m*2^k with m = 1, 12, 20, 28 or 36; the "
            "nearest are 12 below and 16 above; choose such a hidden_size, or part hadamard with transform: pad");
  kit::Bench bench;
  EXPECT_EQ(refusal([&] { bench.make<Output>("hadamard", {.context = 12, .hidden_size = 8}); }),
            "output: part hadamard needs heads * head_dim = hidden_size 8, got 12");
  EXPECT_EQ(refusal([] { Projection(24, "{base_order: 24}"); }),
            "output: part hadamard: base_order must be 12 for order 24, got 24; leave it out");
  EXPECT_EQ(refusal([] { Projection(24, "{base_order: 12}"); }), "taken");
}

// oracle: out_proj.policy
TEST(OutputPolicy, MheMulWithHadamardHasThePublishedParameters) {
  const auto count = [](const std::string& output) {
    kit::Bench bench(DType::f32, DType::f32, Device::meta);
    bench.make<Mixer>("attention", {.hidden_size = 768, .max_position_embeddings = 4},
                      "{num_attention_heads: 12, heads: mhe_mul, output: " + output + "}");
    return bench.parameters().count();
  };
  EXPECT_EQ(count("hadamard"), 151296);
  EXPECT_EQ(count("none"), 149760);
  EXPECT_EQ(count("dense"), 149760 + 768 * 768);
}

// oracle: out_proj.policy
TEST(OutputPolicy, NeverChangesTheCache) {
  const auto bytes = [](const std::string& output) {
    kit::Bench bench;
    return bench
        .make<Mixer>("attention", {.hidden_size = 24, .max_position_embeddings = 9},
                     "{num_attention_heads: 4, output: " + output + "}")
        ->state_bytes({9, 3}, DType::f32);
  };
  EXPECT_EQ(bytes("hadamard"), bytes("dense"));
  EXPECT_EQ(bytes("none"), bytes("dense"));
}

}  // namespace
}  // namespace lithe
