#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct EncoderMixer {
  EncoderMixer(const std::string& type, const std::string& options, int64_t tokens = 9)
      : mixer(
            bench.make<Mixer>(type, {.hidden_size = 8, .max_position_embeddings = tokens, .causal = false}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: lowdim.linformer, lowdim.combined
TEST(Linformer, WithUnitMapsIsAttention) {
  EncoderMixer linformer("linformer", "{num_attention_heads: 2, projected_keys: 9}"),
      mha("attention", "{num_attention_heads: 2}");
  for (const char* name : {"part.project_keys.weight", "part.project_values.weight"})
    kit::assign(linformer.bench[name], kit::identity(9));
  for (Parameter& p : mha.bench.parameters().all()) copy_into(p.master.value(), linformer.bench[p.name]);
  const Tensor x = kit::normal({9, 8}, DType::f64, 1);
  EXPECT_LE(kit::largest_difference(linformer(x), mha(x)), 1e-12);
}

// oracle: lowdim.combined
TEST(Linformer, NarrowQueriesKeysAndValuesWithUnitMapsAreTheWideOnes) {
  EncoderMixer wide("linformer", "{num_attention_heads: 2, projected_keys: 3}"),
      narrow("linformer", "{num_attention_heads: 2, projected_keys: 3, reduced_dim: 4, reduce_values: true}");
  for (Parameter& p : wide.bench.parameters().all()) copy_into(narrow.bench[p.name], p.master.value());
  for (const char* name : {"reduce_q", "reduce_k", "reduce_v", "widen"}) {
    const Tensor map = narrow.bench[cat("part.", name, ".weight")];  // [4, 2 heads of 4]
    for (int64_t i = 0; i < map.numel(); ++i) set_value(map, i, i / 8 == i % 4);
  }
  const Tensor x = kit::normal({9, 8}, DType::f64, 1);
  EXPECT_LE(kit::largest_difference(narrow(x), wide(x)), 1e-12);
  EXPECT_NE(kit::coded_error_of([] {
              EncoderMixer("linformer", "{num_attention_heads: 2, projected_keys: 3, reduce_values: true}");
            }).find("reduced_dim"),
            std::string::npos);
}

// Keys that are all the mean of the text: every token gets the mean value.
// oracle: lowdim.linformer
TEST(Linformer, EvenMapsGiveTheMeanValue) {
  EncoderMixer linformer("linformer", "{num_attention_heads: 2, projected_keys: 3, share: kv, output: none}");
  const Tensor map = linformer.bench["part.project_keys.weight"];
  for (int64_t i = 0; i < map.numel(); ++i) set_value(map, i, 1.0 / 7);
  const Tensor x = kit::normal({7, 8}, DType::f64, 1), y = linformer(x);
  const Tensor v = kit::product(x, linformer.bench["part.heads.v.weight"]);
  for (int64_t c = 0; c < 8; ++c) {
    double mean = 0;
    for (int64_t i = 0; i < 7; ++i) mean += value_at(v, i * 8 + c) / 7;
    for (int64_t i = 0; i < 7; ++i) EXPECT_NEAR(value_at(y, i * 8 + c), mean, 1e-12);
  }
}

// oracle: lowdim.linformer, lowdim.combined
TEST(Linformer, CountsItsNumbers) {
  EXPECT_EQ(EncoderMixer("linformer", "{num_attention_heads: 2, projected_keys: 3}").bench.parameters().count(),
            4 * 8 * 8 + 2 * 3 * 9);
  EXPECT_EQ(EncoderMixer("linformer", "{num_attention_heads: 2, projected_keys: 3, share: kv, reduced_dim: 2}")
                .bench.parameters()
                .count(),
            4 * 8 * 8 + 3 * 9 + 2 * 8 * 2);
}

// oracle: lowdim.linformer
TEST(Linformer, RefusesToBeCausal) {
  kit::Bench bench;
  EXPECT_NE(kit::coded_error_of([&] {
              bench.make<Mixer>("linformer", {.hidden_size = 8, .max_position_embeddings = 9},
                                "{num_attention_heads: 2}");
            }).find("2 "),
            std::string::npos);
}

// oracle: lowdim.linformer
TEST(Linformer, EachHeadMayHaveItsMaps) {
  EncoderMixer shared("linformer", "{num_attention_heads: 2, projected_keys: 3}"),
      own("linformer", "{num_attention_heads: 2, projected_keys: 3, share: none}");
  EXPECT_EQ(own.bench.parameters().count() - shared.bench.parameters().count(), 2 * 3 * 9);
  const auto copy = [&](const char* name, bool both) {
    const Tensor from = shared.bench[name], to = own.bench[name];
    for (int64_t i = 0; i < from.numel(); ++i) {
      set_value(to, i, value_at(from, i));
      if (both) set_value(to, from.numel() + i, value_at(from, i));
    }
  };
  for (Parameter& p : shared.bench.parameters().all())
    copy(p.name.c_str(), p.name.find("project_") != std::string::npos);
  const Tensor x = kit::normal({7, 8}, DType::f64, 1);
  EXPECT_LE(kit::largest_difference(own(x), shared(x)), 1e-12);
  // The maps of the second head change its channels alone.
  EncoderMixer before("linformer", "{num_attention_heads: 2, projected_keys: 3, share: none, output: none}"),
      after("linformer", "{num_attention_heads: 2, projected_keys: 3, share: none, output: none}");
  const Tensor map = after.bench["part.project_values.weight"];
  for (int64_t i = map.numel() / 2; i < map.numel(); ++i) set_value(map, i, 0);
  const Tensor a = before(x), b = after(x);
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t c = 0; c < 8; ++c) EXPECT_EQ(value_at(b, i * 8 + c), c < 4 ? value_at(a, i * 8 + c) : 0);
}

// Maps of layers that share are those of the first: equal to a model whose layers have equal maps of their own.
// oracle: lowdim.linformer
TEST(Linformer, LayersMayShareOneMap) {
  const auto model = [](const char* share) {
    auto made = std::make_unique<Model>(
        kit::model_config(
            cat("{vocab_size: 11, hidden_size: 8, num_hidden_layers: 3, architecture: encoder, position: learned, "
                "max_position_embeddings: 7, mixer: {type: linformer, num_attention_heads: 2, "
                "projected_keys: 3, share: ",
                share, "}, ffn: {type: relu, intermediate_size: 8}}")),
        kit::kTrainable);
    kit::randomise(made->parameters(), 5);
    return made;
  };
  const auto shared = model("layers"), own = model("kv");
  EXPECT_EQ(own->parameters().count() - shared->parameters().count(), 2 * 3 * 7);
  for (Parameter& p : own->parameters().all()) {
    const size_t map = p.name.find("mixer.project_keys");
    const std::string name = map == std::string::npos ? p.name : "layers.0." + p.name.substr(map);
    ASSERT_TRUE(shared->parameters().find(name)) << name;
    p.assign(shared->parameters().find(name)->numbers());
  }
  const kit::Batch batch = kit::random_batch({5, 7}, 11, 2);
  const kit::Results one = kit::run_training(*shared, batch);
  kit::Results three = kit::run_training(*own, batch);
  std::vector<double>& sum = three["gradient of layers.0.mixer.project_keys.weight"];
  for (const char* layer : {"1", "2"})
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] += three[cat("gradient of layers.", layer, ".mixer.project_keys.weight")][i];
  for (const auto& [name, values] : one)
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], three[name][i], 1e-12) << name << " " << i;
}

}  // namespace
}  // namespace lithe
