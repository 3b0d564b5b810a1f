// Low-rank adapters: what learns, what stays, what is published.
#include "lithe/train/adapters.h"

#include <cmath>

#include "lithe/model/safetensors.h"
#include "lithe/ops/basic.h"
#include "tests/support/model_kit.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

const std::string kAdaptedModel =
    "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 16, mixer: {type: attention, "
    "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 24}}";

AdapterConfig config_of(const std::string& type) {
  AdapterConfig config;
  config.type = type, config.rank = 4, config.alpha = 8;
  config.targets = {"*.mixer.heads.*.weight", "*.ffn.down.weight"};
  return config;
}

struct Adapted {
  Model model{kit::model_config(kAdaptedModel), {.seed = 5, .trainable = true}};
  Parameters parameters;
  Adapters adapters;
  explicit Adapted(const std::string& type) : adapters(model, config_of(type), parameters, 3) { adapters.begin(); }
};

TEST(Adapters, BeginAsTheModelThatTheyAdapt) {
  const Model plain(kit::model_config(kAdaptedModel), {.seed = 5, .trainable = true});
  const kit::Batch batch = kit::random_batch({7, 5}, plain.config(), 5);
  const Tensor want = kit::logits(plain, batch.ids, batch.sequences).value();
  for (const std::string type : {"lora", "rslora", "dora"}) {
    Adapted one(type);
    EXPECT_LE(kit::largest_difference(kit::logits(one.model, batch.ids, batch.sequences).value(), want), 1e-5) << type;
    // 2 layers: q, k, v of 16 x 16 and down of 24 x 16
    const int64_t of_dora = type == "dora" ? 2 * 4 * 16 : 0;
    EXPECT_EQ(one.parameters.count(), 2 * (3 * 4 * 32 + 4 * 40) + of_dora) << type;
    for (const Parameter& p : one.model.parameters().all()) EXPECT_FALSE(p.master.needs_grad()) << p.name;
  }
}

TEST(Adapters, GradientsAreThoseOfTheLowRankForm) {
  for (const std::string type : {"lora", "rslora"}) {
    Model model(kit::model_config(kAdaptedModel), kit::kTrainable);
    kit::randomise(model.parameters(), 2);
    Parameters parameters;
    Adapters adapters(model, config_of(type), parameters, 3);
    kit::randomise(parameters, 4);
    const kit::Batch batch = kit::random_batch({4, 3}, model.config(), 5);
    std::string where;
    EXPECT_LE(kit::gradient_error(
                  parameters,
                  [&](const std::vector<Var>&) {
                    return std::vector<Var>{kit::loss(model, batch, kit::labels_for(model, batch), 0, 1)};
                  },
                  {}, &where),
              1e-6)
        << type << where;
  }
}

TEST(Adapters, AreMergedExactlyAndSavedAlone) {
  const kit::Scratch scratch;
  for (const std::string type : {"lora", "rslora", "dora"}) {
    Adapted one(type);
    kit::randomise(one.parameters, 4, 0.1);
    const Path file = scratch.path() / (type + ".safetensors");
    one.adapters.save_merged(file);
    Model merged(kit::model_config(kAdaptedModel), {});
    load_weights(merged, file);
    const kit::Batch batch = kit::random_batch({7, 5}, merged.config(), 5);
    // Products with A and B apart round otherwise than those with their sum.
    EXPECT_LE(kit::largest_difference(kit::logits(one.model, batch.ids, batch.sequences).value(),
                                      kit::logits(merged, batch.ids, batch.sequences).value()),
              type == "dora" ? 0 : 1e-6)
        << type;
    // W + s A B by hand, from the files alone.
    one.adapters.save(scratch.path() / type);
    const SafetensorsFile saved(scratch.path() / type / "adapter_model.safetensors");
    const std::string module = "base_model.model.layers.1.ffn.down";
    const Tensor a = empty({4, 24}, DType::f32), b = empty({16, 4}, DType::f32);
    saved.read(module + ".lora_A.weight", a);
    saved.read(module + ".lora_B.weight", b);
    if (type == "dora") continue;
    const Tensor w = one.model.parameters().find("layers.1.ffn.down.weight")->master.value(),
                 now = merged.parameters().find("layers.1.ffn.down.weight")->master.value();
    const double s = type == "lora" ? 8 / 4. : 8 / 2.;
    for (int64_t i = 0; i < 24; ++i)
      for (int64_t o = 0; o < 16; ++o) {
        double sum = value_at(w, i * 16 + o);
        for (int64_t r = 0; r < 4; ++r) sum += s * value_at(b, o * 4 + r) * value_at(a, r * 24 + i);
        EXPECT_NEAR(value_at(now, i * 16 + o), sum, 1e-5);
      }
  }
}

TEST(Adapters, ARunGoesOnAfterAKillAndPublishesTheMergedModel) {
  const kit::TrainKit kit;
  const std::string recipe =
      "{max_steps: 8, batch_tokens: 64, learning_rate: 0.01, logging_steps: 2, save_steps: 4, adapters: {type: dora, "
      "rank: "
      "2, targets: ['*.mixer.heads.*.weight'], also: ['final_norm.*']}}";
  const TrainRun whole = kit.run("", "{sequence_length: 16}", recipe, "whole");
  train(whole);
  const auto weights = [&](const TrainRun& run, int64_t step) {
    return read_file(checkpoint_path(run.out, step) / "model.safetensors");
  };
  EXPECT_FALSE(weights(whole, 4) == weights(whole, 8));  // the norm learns
  EXPECT_TRUE(read_file(whole.out / "model.safetensors") != weights(whole, 8));
  EXPECT_TRUE(std::filesystem::exists(whole.out / "adapter" / "adapter_config.json"));
  const TrainRun again = kit.killed_after(whole, 4, "again");
  train(again);
  EXPECT_TRUE(read_file(again.out / "model.safetensors") == read_file(whole.out / "model.safetensors"));
  EXPECT_TRUE(read_file(again.out / "adapter" / "adapter_model.safetensors") ==
              read_file(whole.out / "adapter" / "adapter_model.safetensors"));
}

TEST(Adapters, RefuseWhatIsNoLinearMap) {
  Model model(kit::model_config(kAdaptedModel, "ffn: {type: gelu, intermediate_size: 24}"), {.trainable = true});
  Parameters parameters;
  AdapterConfig config = config_of("lora");
  const auto expect_refused = [&](const std::string& words) {
    const std::string error = kit::coded_error_of([&] { Adapters(model, config, parameters, 3); });
    EXPECT_NE(error.find(words), std::string::npos) << error;
  };
  config.targets = {"embedding.weight"};
  expect_refused("2 train: adapters.targets names 'embedding.weight', which no linear map reads alone");
  config.targets = {"*.ffn.*", "layers.0.ffn.up.bias"};
  expect_refused("'layers.0.ffn.up.bias', which no linear map reads alone");
  config.targets = {"*.bias"};
  expect_refused("'*.bias', and of what it matches none");
  config.targets = {"nothing"};
  expect_refused("no parameter is called so");
  config.targets = {};
  expect_refused("targets is empty");
  config.targets = {"*.ffn.*"}, config.also = {"layers.1.ffn.down.weight"};
  expect_refused("both name 'layers.1.ffn.down.weight'");
  config.also = {}, config.rank = 17;
  expect_refused("'layers.0.ffn.up.weight' is [16,24], whose rank is at most 16");
}

TEST(Adapters, AWildcardTakesTheLinearMapsAmongWhatItMatches) {
  Model model(kit::model_config(kAdaptedModel, "ffn: {type: gelu, intermediate_size: 24}"), {.trainable = true});
  Parameters parameters;
  AdapterConfig config = config_of("lora");
  config.targets = {"*.ffn.*"};
  const Adapters adapters(model, config, parameters, 3);
  EXPECT_EQ(parameters.all().size(), 2u * 2 * 2);  // layers, maps, A and B
  config.targets = {"*.weight"};                   // norms and the embedding, too
  Model all(kit::model_config(kAdaptedModel), {.trainable = true});
  Parameters of_all;
  const Adapters on_all(all, config, of_all, 3);
  EXPECT_EQ(of_all.all().size(), 2u * 6 * 2);  // q, k, v, output, up, down
}

}  // namespace
}  // namespace lithe
