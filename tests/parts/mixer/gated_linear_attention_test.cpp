#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/linear_recurrence.h"
#include "lithe/ops/pointwise.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Gated {
  Gated(int64_t d, const std::string& options)
      : mixer(bench.make<Mixer>("gated_linear_attention", {.hidden_size = d, .max_position_embeddings = 40}, options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  Tensor weights(const Tensor& x) const { return mixer->maps({Var(x), Sequences::single(x.rows()), nullptr}).weights; }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: linattn.decay
TEST(GatedLinearAttentionMixer, GivesTheWorkedDataSetWithHalfOfThePast) {
  const auto elu1 = [](const Tensor& x) { return pointwise(kernels::Pointwise::elu1, x); };
  const Var q = elu1(kit::tensor_f64({2, 2}, {.5, -1, 1, 0})), k = elu1(kit::tensor_f64({2, 2}, {1, 0, -1, 2}));
  const Tensor v = kit::tensor_f64({2, 2}, {1, 2, 3, -1});
  const auto run = [&](double log) {
    return linear_recurrence(q, k, v, Var(kit::tensor_f64({1}, {log})), {}, Sequences::single(2), {.normalise = true})
        .value();
  };
  EXPECT_EQ(kit::close_to_printed(run(std::log(0.5)), {1, 2, 2.198173, 0.202741}, 6), "");
  EXPECT_EQ(kit::close(run(-800), v, 4), "");                                   // a = 0: each token alone
  EXPECT_EQ(kit::close_to_printed(run(0), {1, 2, 1.855280, 0.717080}, 6), "");  // a = 1: linear attention
}

// oracle: linattn.decay
TEST(GatedLinearAttentionMixer, ADecayMultipliesOldWeights) {
  // The weights of two heads that differ in their decay alone; 1 - a cancels.
  const Tensor x = kit::normal({5, 6}, DType::f64, 1);
  for (const std::string complement : {"true", "false"}) {
    Gated mixer(6, cat("{num_attention_heads: 2, gate: constant, complement: ", complement, "}"));
    const Tensor logit = mixer.bench["part.decay.logit"];
    const auto set = [&](double a) {
      for (int64_t i = 0; i < 2; ++i) set_value(logit, i, std::log(a / (1 - a)));
    };
    set(1 - 1e-12);
    const Tensor all = mixer.weights(x);
    set(0.7);
    const Tensor some = mixer.weights(x);
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t i = 0; i < 5; ++i) {
        double sum = 0;
        for (int64_t j = 0; j <= i; ++j) sum += std::pow(0.7, double(i - j)) * value_at(all, (head * 5 + i) * 5 + j);
        for (int64_t j = 0; j <= i; ++j)
          EXPECT_NEAR(value_at(some, (head * 5 + i) * 5 + j),
                      std::pow(0.7, double(i - j)) * value_at(all, (head * 5 + i) * 5 + j) / sum, 1e-6);
      }
  }
}

TEST(GatedLinearAttentionMixer, DecaysStartWhereTheRecipeSays) {
  for (const std::string gate : {"constant", "head", "channel"}) {
    kit::Bench bench;
    bench.make<Mixer>("gated_linear_attention", {.hidden_size = 6},
                      cat("{num_attention_heads: 2, decay_init: 0.9, gate_temperature: 4, gate: ", gate, "}"));
    const Tensor start = bench[gate == "constant" ? "part.decay.logit" : "part.decay.bias"];
    EXPECT_EQ(start.numel(), gate == "channel" ? 6 : 2);
    EXPECT_NEAR(std::pow(1 / (1 + std::exp(-value_at(start, 0))), 0.25), 0.9, 1e-12);
  }
}

// oracle: linattn.gated
TEST(GatedLinearAttentionMixer, ConstantGatesAreADecay) {
  for (const std::string gate : {"head", "channel"}) {
    Gated gated(6, cat("{num_attention_heads: 2, gate: ", gate, "}")),
        constant(6, "{num_attention_heads: 2, gate: constant}");
    for (const char* name : {"heads.q", "heads.k", "heads.v", "output"})
      copy_into(gated.bench[cat("part.", name, ".weight")], constant.bench[cat("part.", name, ".weight")]);
    fill_zero(gated.bench["part.decay.weight"]);
    const Tensor bias = gated.bench["part.decay.bias"], logit = constant.bench["part.decay.logit"];
    for (int64_t i = 0; i < bias.numel(); ++i) set_value(bias, i, i < bias.numel() / 2 ? 1.5 : -0.5);
    set_value(logit, 0, 1.5);
    set_value(logit, 1, -0.5);
    const Tensor x = kit::normal({7, 6}, DType::f64, 1);
    EXPECT_EQ(kit::close(gated(x), constant(x), 256), "") << gate;
  }
}

// oracle: linattn.gated
TEST(GatedLinearAttentionMixer, WeightsAreProductsOfTheGatesBetween) {
  Gated mixer(4, "{num_attention_heads: 1, normalise: false, feature_map: identity}");
  const Tensor x = kit::normal({5, 4}, DType::f64, 1), got = mixer.weights(x);
  const auto map = [&](const char* name) { return kit::product(x, mixer.bench[cat("part.", name, ".weight")]); };
  const Tensor q = map("heads.q"), k = map("heads.k"), raw = map("decay");
  const auto a = [&](int64_t t) {
    return 1 / (1 + std::exp(-value_at(raw, t) - value_at(mixer.bench["part.decay.bias"], 0)));
  };
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double weight = 0;
      for (int64_t c = 0; c < 4; ++c) weight += value_at(q, i * 4 + c) * value_at(k, j * 4 + c);
      weight *= 1 - a(j);
      for (int64_t l = j + 1; l <= i; ++l) weight *= a(l);
      EXPECT_NEAR(value_at(got, i * 5 + j), weight, 1e-6 * (1 + std::abs(weight)));
    }
}

TEST(GatedLinearAttentionMixer, ParametersAreThoseOfAttentionAndItsGates) {
  for (const int64_t d : {6, 12, 24})
    for (const auto& [gate, more] : {std::pair<std::string, int64_t>{"constant", 3}, {"head", 3 * (d + 1)}}) {
      kit::Bench bench;
      bench.make<Mixer>("gated_linear_attention", {.hidden_size = d},
                        cat("{num_attention_heads: 3, gate: ", gate, "}"));
      EXPECT_EQ(bench.parameters().count(), 4 * d * d + more);
    }
}

}  // namespace
}  // namespace lithe
