#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/linear.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Retention {
  Retention(int64_t d, const std::string& options, const Position* position = nullptr)
      : mixer(bench.make<Mixer>("retention",
                                {.hidden_size = d, .max_position_embeddings = 40, .causal = true, .position = position},
                                options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  Tensor map(const Tensor& x, const std::string& name) { return kit::product(x, bench["part." + name + ".weight"]); }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// Eq 5-8 of the paper: sum over j <= i of a^(i-j) (q_i . k_j) v_j / sqrt(d_h), normed by head, gated, projected.
TEST(RetentionMixer, IsTheSumOverPairsOfThePaper) {
  const int64_t d = 6, h = 2, E = 3, T = 5;
  Retention mixer(d, "{num_attention_heads: 2, decay: [0.9, 0.5]}");
  const Tensor x = kit::normal({T, d}, DType::f64, 1), q = mixer.map(x, "heads.q"), k = mixer.map(x, "heads.k"),
               v = mixer.map(x, "heads.v"), gate = mixer.map(x, "gate"), norm = mixer.bench["part.norm.weight"];
  const Tensor heads = zeros({T, d}, DType::f64);
  for (int64_t i = 0; i < T; ++i)
    for (int64_t head = 0; head < h; ++head) {
      std::vector<double> o(size_t(E), 0.0);
      double square = 0;
      for (int64_t m = 0; m < E; ++m) {
        for (int64_t j = 0; j <= i; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < E; ++c) dot += value_at(q, i * d + head * E + c) * value_at(k, j * d + head * E + c);
          o[size_t(m)] += std::pow(head ? 0.5 : 0.9, double(i - j)) * dot / std::sqrt(double(E)) *
                          value_at(v, j * d + head * E + m);
        }
        square += o[size_t(m)] * o[size_t(m)] / double(E);
      }
      for (int64_t m = 0; m < E; ++m) {
        const int64_t at = i * d + head * E + m;
        const double g = value_at(gate, at);
        set_value(heads, at, o[size_t(m)] / std::sqrt(square + 1e-6) * value_at(norm, m) * g / (1 + std::exp(-g)));
      }
    }
  EXPECT_EQ(kit::close(mixer(x), mixer.map(heads, "output"), 64), "");
}

TEST(RetentionMixer, HeadsForgetAtTheRatesOfThePaper) {
  const Retention mixer(8, "{num_attention_heads: 4, output: none, output_norm: false, output_gate: false}");
  const MixerMaps maps = mixer.mixer->maps({Var(kit::normal({3, 8}, DType::f64, 1)), Sequences::single(3), nullptr});
  const Retention still(8,
                        "{num_attention_heads: 4, output: none, output_norm: false, output_gate: false, decay: [1, 1, "
                        "1, 1]}");
  const MixerMaps kept = still.mixer->maps({Var(kit::normal({3, 8}, DType::f64, 1)), Sequences::single(3), nullptr});
  for (int64_t head = 0; head < 4; ++head)
    for (int64_t j = 0; j < 3; ++j) {
      const int64_t at = (head * 3 + 2) * 3 + j;
      EXPECT_NEAR(value_at(maps.weights, at) / value_at(kept.weights, at),
                  std::pow(1 - std::exp2(-5 - double(head)), double(2 - j)), 1e-6);
    }
}

TEST(RetentionMixer, RotaryPositionsDependOnDistancesAlone) {
  kit::Bench bench;
  const auto rotary = bench.make<Position>("rotary", {.hidden_size = 8, .max_position_embeddings = 40});
  const Retention mixer(8, "{num_attention_heads: 2}", rotary.get()), plain(8, "{num_attention_heads: 2}");
  const Tensor x = kit::normal({6, 8}, DType::f64, 3);
  EXPECT_GT(kit::largest_difference(mixer(x), plain(x)), 1e-4);
  const Tensor later = mixer.mixer->maps({Var(x), Sequences({0, 6}, {11}), nullptr}).weights,
               first = mixer.mixer->maps({Var(x), Sequences::single(6), nullptr}).weights;
  EXPECT_EQ(kit::close(later, first, 256), "");
}

TEST(RetentionMixer, StatesAreOneMatrixAHead) {
  const Retention mixer(896, "{num_attention_heads: 14}");
  EXPECT_EQ(mixer.mixer->state_bytes({2048}, DType::bf16), 14 * 64 * 64 * 4);
  EXPECT_EQ(mixer.mixer->make_state({2, 2048, DType::bf16, Device::cpu})->bytes(), 2 * 14 * 64 * 64 * 4);
}

TEST(RetentionMixer, WrongDecaysAreRefused) {
  EXPECT_EQ(kit::error_of([] { Retention(8, "{num_attention_heads: 2, decay: [0.5]}"); }),
            "retention: decay must have a number for each of the 2 heads, got 1");
  EXPECT_EQ(kit::error_of([] { Retention(8, "{num_attention_heads: 2, decay: [0.5, 1.5]}"); }),
            "retention: decay must be in (0, 1], got 1.5 for head 1");
}

}  // namespace
}  // namespace lithe
