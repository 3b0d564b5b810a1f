#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/feature_map.h"
#include "lithe/ops/linear_recurrence.h"
#include "lithe/ops/pointwise.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Linearised {
  Linearised(int64_t d, const std::string& options, bool causal = true, const Position* position = nullptr)
      : mixer(bench.make<Mixer>(
            "linear_attention",
            {.hidden_size = d, .max_position_embeddings = 40, .causal = causal, .position = position}, options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  Tensor map(const Tensor& x, const std::string& name) { return kit::product(x, bench["part." + name + ".weight"]); }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

Var elu1(const Tensor& x) { return pointwise(kernels::Pointwise::elu1, x); }

// oracle: kernel.linear
TEST(LinearAttentionMixer, GivesTheWorkedDataSet) {
  const Tensor q = kit::tensor_f64({2, 2}, {.5, -1, 1, 0}), k = kit::tensor_f64({2, 2}, {1, 0, -1, 2}),
               v = kit::tensor_f64({2, 2}, {1, 2, 3, -1});
  EXPECT_EQ(kit::values(elu1(clone(q.slice(1, 2))).value()), (std::vector<double>{2, 1}));
  const Tensor out = linear_recurrence(elu1(q), elu1(k), v, {}, {}, Sequences::single(2), {.normalise = true}).value();
  EXPECT_EQ(kit::close_to_printed(out, {1, 2, 1.855280, 0.717080}, 6), "");
  const Tensor weights =
      linear_recurrence(elu1(q), elu1(k), kit::tensor_f64({2, 2}, {1, 0, 0, 1}), {}, {}, Sequences::single(2), {})
          .value();
  EXPECT_EQ(kit::close_to_printed(clone(weights.slice(1, 2)), {5, 3.735759}, 6), "");
}

double feature(const std::string& map, const Tensor& x, int64_t at, int64_t first, int64_t E) {
  const double value = value_at(x, at);
  if (map == "elu1") return value > 0 ? value + 1 : std::exp(value);
  if (map == "relu") return std::max(value, 0.0);
  if (map == "identity") return value;
  double sum = 0;
  for (int64_t c = 0; c < E; ++c) sum += std::exp(value_at(x, first + c));
  return std::exp(value) / sum;
}

// oracle: kernel.linear
TEST(LinearAttentionMixer, IsTheQuadraticFormOfItsFeatures) {
  const int64_t d = 6, h = 2, E = 3, T = 7;
  for (const std::string map : {"elu1", "relu", "softmax", "identity"})
    for (const bool causal : {true, false}) {
      Linearised mixer(d, cat("{num_attention_heads: 2, output: none, feature_map: ", map, "}"), causal);
      const Tensor x = kit::normal({T, d}, DType::f64, 1), q = mixer.map(x, "heads.q"), k = mixer.map(x, "heads.k"),
                   v = mixer.map(x, "heads.v"), y = mixer(x);
      for (int64_t i = 0; i < T; ++i)
        for (int64_t head = 0; head < h; ++head) {
          std::vector<double> sum(size_t(E), 0.0);
          double all = 0, size = 0;
          for (int64_t j = 0; j < (causal ? i + 1 : T); ++j) {
            double weight = 0;
            for (int64_t c = head * E; c < (head + 1) * E; ++c)
              weight +=
                  feature(map, q, i * d + c, i * d + head * E, E) * feature(map, k, j * d + c, j * d + head * E, E);
            all += weight, size += std::abs(weight);
            for (int64_t m = 0; m < E; ++m) sum[size_t(m)] += weight * value_at(v, j * d + head * E + m);
          }
          const double divisor = all < 1e-6 ? all + 1e-6 : all;
          for (int64_t m = 0; m < E; ++m) {
            const double want = sum[size_t(m)] / divisor;
            EXPECT_NEAR(value_at(y, i * d + head * E + m), want,
                        1e-12 * (1 + size / std::abs(divisor)) * (1 + std::abs(want)))
                << map;
          }
        }
    }
}

// A source of any length in place of the past: the quadratic form over its rows, its maps, and the sums of a state.
// oracle: kernel.linear, kernel.favor
TEST(LinearAttentionMixer, CrossFormIsTheQuadraticFormOverTheSource) {
  const int64_t d = 6, E = 3, T = 4, S = 7;
  for (const std::string map : {"elu1", "relu", "softmax", "identity", "favor, features: 5"}) {
    const std::string options = cat("{num_attention_heads: 2, output: none, feature_map: ", map, "}");
    kit::Bench bench;
    const auto mixer = bench.make<Mixer>(
        "linear_attention", {.hidden_size = d, .max_position_embeddings = 40, .causal = true, .cross = true}, options);
    kit::randomise(bench.parameters(), 2);
    const Tensor x = kit::normal({T, d}, DType::f64, 1), source = kit::normal({S, d}, DType::f64, 3);
    const Rows read{source, Sequences::single(S)};
    const SubLayerInput in{.x = Var(x), .sequences = Sequences::single(T), .source = &read};
    const Tensor y = mixer->forward(in).value(), weights = mixer->maps(in).weights;
    const auto mapped = [&](const Tensor& rows, const std::string& name) {
      return kit::product(rows, bench["part.heads." + name + ".weight"]);
    };
    const Tensor q = mapped(x, "q"), k = mapped(source, "k"), v = mapped(source, "v");
    for (int64_t i = 0; i < T; ++i)
      for (int64_t head = 0; head < 2; ++head) {
        std::vector<double> weight(size_t(S), 0.0), want(size_t(E), 0.0);
        double all = 0;
        for (int64_t j = 0; j < S; ++j) {
          for (int64_t c = head * E; c < (head + 1) * E && !map.starts_with("favor"); ++c)
            weight[size_t(j)] +=
                feature(map, q, i * d + c, i * d + head * E, E) * feature(map, k, j * d + c, j * d + head * E, E);
          if (map.starts_with("favor")) weight[size_t(j)] = value_at(weights, (head * T + i) * S + j);
          all += weight[size_t(j)];
        }
        const double divisor = all < 1e-6 ? all + 1e-6 : all;
        for (int64_t j = 0; j < S; ++j) {
          EXPECT_NEAR(value_at(weights, (head * T + i) * S + j), weight[size_t(j)] / divisor, 1e-5) << map;
          for (int64_t m = 0; m < E; ++m)
            want[size_t(m)] += weight[size_t(j)] / divisor * value_at(v, j * d + head * E + m);
        }
        if (map.starts_with("favor")) {
          EXPECT_NEAR(all, 1, 1e-5);  // maps are in f32
        }
        for (int64_t m = 0; m < E; ++m)
          EXPECT_NEAR(value_at(y, i * d + head * E + m), want[size_t(m)],
                      map.starts_with("favor") ? 1e-5 : 1e-9 * (1 + std::abs(want[size_t(m)])))
              << map;
      }
    const auto state = mixer->make_state({1, 8, DType::f64, Device::cpu});
    mixer->read_source(*state, read);
    const NoGrad no_grad;
    SubLayerInput step = in;
    step.source = nullptr, step.state = state.get();
    EXPECT_LE(kit::largest_difference(mixer->forward(step).value(), y), 1e-10) << map;
  }
  EXPECT_NE(kit::error_of([] {
              kit::Bench bench;
              bench.make<Mixer>("linear_attention",
                                {.hidden_size = 6, .max_position_embeddings = 40, .causal = true, .cross = true},
                                "{num_attention_heads: 2, conv_size: 3}");
            }).find("conv_size, and heads of tokens' embeddings, are of one text"),
            std::string::npos);
}

// oracle: kernel.linear
TEST(LinearAttentionMixer, WeightsAreADistributionThatValuesPassThrough) {
  Linearised mixer(6, "{num_attention_heads: 2, output: none}");
  const Tensor x = kit::normal({6, 6}, DType::f64, 1);
  const MixerMaps maps = mixer.mixer->maps({Var(x), Sequences::single(6), nullptr});
  const Tensor v = mixer.map(x, "heads.v"), y = mixer(x);
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t i = 0; i < 6; ++i) {
      double sum = 0;
      std::vector<double> mixed(3, 0.0);
      for (int64_t j = 0; j < 6; ++j) {
        const double w = value_at(maps.weights, (head * 6 + i) * 6 + j);
        EXPECT_GE(w, 0);
        EXPECT_TRUE(j <= i || w == 0);
        sum += w;
        for (int64_t m = 0; m < 3; ++m) mixed[size_t(m)] += w * value_at(v, j * 6 + head * 3 + m);
      }
      EXPECT_NEAR(sum, 1, 6 * 0x1p-23);
      // A shift of all values shifts the rows, since the weights sum to 1.
      for (int64_t m = 0; m < 3; ++m) EXPECT_NEAR(value_at(y, i * 6 + head * 3 + m), mixed[size_t(m)], 1e-5);
    }
}

// oracle: kernel.linear
TEST(LinearAttentionMixer, AShiftOfAllKeysChangesTheWeights) {
  const Tensor q = kit::tensor_f64({2, 2}, {.5, -1, 1, 0}), k = kit::tensor_f64({2, 2}, {1, 0, -1, 2}),
               shifted = kit::tensor_f64({2, 2}, {2, 1, 0, 3}), v = kit::tensor_f64({2, 2}, {1, 2, 3, -1});
  const auto run = [&](const Tensor& keys) {
    return linear_recurrence(elu1(q), elu1(keys), v, {}, {}, Sequences::single(2), {.normalise = true}).value();
  };
  EXPECT_GT(kit::largest_difference(run(k), run(shifted)), 1e-3);
}

// oracle: kernel.favor
TEST(LinearAttentionMixer, RandomFeaturesApproachTheSoftmax) {
  kit::Bench bench;
  const auto attention = bench.make<Mixer>("attention", {.hidden_size = 8}, "{num_attention_heads: 2}");
  const Tensor x = kit::normal({12, 8}, DType::f64, 1);
  const auto error = [&](int64_t features) {
    double sum = 0;
    for (int64_t seed = 0; seed < 12; ++seed) {
      Linearised mixer(
          8, cat("{num_attention_heads: 2, feature_map: favor, features: ", features, ", feature_seed: ", seed, "}"));
      kit::copy_values(bench.parameters(), mixer.bench.parameters());
      const double far =
          kit::largest_difference(mixer(x), attention->forward({Var(x), Sequences::single(12), nullptr}).value());
      sum += far / 12;
    }
    return sum;
  };
  kit::randomise(bench.parameters(), 2);
  const double few = error(16), many = error(256);
  EXPECT_NEAR(few / many, 4, 2);  // as the root of their number
}

// oracle: kernel.favor
TEST(LinearAttentionMixer, TheScaleOfRandomFeaturesCancels) {
  const Tensor directions = orthogonal_directions(4, 9, 1, 0), q = kit::normal({5, 8}, DType::f64, 1),
               k = kit::normal({5, 8}, DType::f64, 2), v = kit::normal({5, 8}, DType::f64, 3);
  const auto run = [&](bool centre_q, bool centre_k) {
    return linear_recurrence(random_features(q, directions, 2, centre_q), random_features(k, directions, 2, centre_k),
                             v, {}, {}, Sequences::single(5), {.heads = 2, .normalise = true})
        .value();
  };
  EXPECT_EQ(kit::close(run(true, false), run(false, false), 64), "");
  EXPECT_GT(kit::largest_difference(run(true, true), run(false, false)), 1e-3);  // keys share one scale
  const Linearised mixer(896, "{num_attention_heads: 14, feature_map: favor}");
  EXPECT_EQ(mixer.mixer->state_bytes({1}, DType::f32), 14 * 267 * 65 * 4);  // m = 64 ln 64 = 266.2
}

TEST(LinearAttentionMixer, PositionsTurnWhereTheMapKeepsProducts) {
  kit::Bench bench;
  const auto rotary = bench.make<Position>("rotary", {.hidden_size = 8, .max_position_embeddings = 40});
  const Tensor x = kit::normal({5, 8}, DType::f64, 1);
  for (const auto& [map, turns] : {std::pair<std::string, bool>{"elu1", false}, {"favor", true}, {"identity", true}}) {
    const std::string options = cat("{num_attention_heads: 2, feature_map: ", map, "}");
    const double far =
        kit::largest_difference(Linearised(8, options, true, rotary.get())(x), Linearised(8, options)(x));
    EXPECT_EQ(far > 1e-4, turns) << map;
    EXPECT_EQ(far == 0, !turns) << map;
  }
}

TEST(LinearAttentionMixer, HeadsOfEveryKindMakeQueriesKeysAndValues) {
  // Head embeddings of zeros: every head is the seed, as with one key head for all.
  Linearised seeds(8, "{num_attention_heads: 4, heads: {type: mhe_mul, head_embedding_std: 0}, output: none}");
  for (const char* name : {"q", "k", "v"}) fill_zero(seeds.bench[cat("part.heads.", name, ".head_embedding")]);
  const Tensor x = kit::normal({5, 8}, DType::f64, 1), y = seeds(x);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t c = 2; c < 8; ++c) EXPECT_EQ(value_at(y, i * 8 + c), value_at(y, i * 8 + c % 2));
  const Linearised shared(8, "{num_attention_heads: 4, heads: mqa}");
  EXPECT_EQ(shared(x).rows(), 5);
  EXPECT_EQ(shared.mixer->state_bytes({3}, DType::f32), 4 * 2 * 3 * 4);
}

TEST(LinearAttentionMixer, FavorNeedsItsDivisors) {
  EXPECT_EQ(kit::error_of([] { Linearised(8, "{num_attention_heads: 2, feature_map: favor, normalise: false}"); }),
            "linear_attention: feature_map favor needs normalise: true, which its queries' scales cancel in");
}

}  // namespace
}  // namespace lithe
