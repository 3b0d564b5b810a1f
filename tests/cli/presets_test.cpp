// The recipes that come with lithe: published hyperparameters, and that all of them can be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lithe/analyze/model_cost.h"
#include "lithe/base/error.h"
#include "lithe/cli/recipe.h"
#include "lithe/train/schedule.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

Recipe preset(const std::string& name) { return load_recipe("recipes/presets/" + name + ".yaml", {}); }

// The rate at step n of a run of `total` steps, as the trainer makes it.
double rate(const Recipe& r, int64_t n, int64_t total) {
  const TrainConfig& c = r.train;
  const int64_t warmup = c.warmup_steps ? c.warmup_steps : std::llround(c.warmup_ratio * double(total));
  return Schedule{.type = c.lr_scheduler_type,
                  .peak = c.learning_rate,
                  .floor = c.min_learning_rate,
                  .warmup = warmup,
                  .total = total,
                  .decay_ratio = c.decay_ratio,
                  .restarts = c.num_cycles}
      .at(n);
}

struct Published {
  std::string name;
  int64_t steps, warmup, batch_tokens;  // steps: of the preset's own limit, or of an assumed corpus for epochs
  double first, peak, last, beta2, epsilon, decay, dropout;
};

class Preset : public testing::TestWithParam<Published> {};

// oracle: train.presets
TEST_P(Preset, HasThePublishedNumbers) {
  const Published& p = GetParam();
  const Recipe r = preset(p.name);
  r.train.validate(r.data.sequence_length);
  EXPECT_EQ(r.train.total_steps(1 << 30), p.steps);
  EXPECT_EQ(r.train.batch_tokens, p.batch_tokens);
  const auto near = [](double want) { return 1e-6 * want + 1e-15; };
  EXPECT_NEAR(rate(r, 1, p.steps), p.first, near(p.first));
  EXPECT_NEAR(rate(r, p.warmup, p.steps), p.peak, near(p.peak));
  EXPECT_LE(rate(r, p.warmup + 1, p.steps), p.peak);
  EXPECT_NEAR(rate(r, p.steps, p.steps), p.last, near(p.last));
  EXPECT_EQ(r.train.adam_beta1, 0.9);
  EXPECT_EQ(r.train.adam_beta2, p.beta2);
  EXPECT_EQ(r.train.adam_epsilon, p.epsilon);
  EXPECT_EQ(r.train.weight_decay, p.decay);
  EXPECT_EQ(r.model.hidden_dropout, p.dropout);
}

constexpr int64_t kEpochs = int64_t(1) << 30;  // micro-batches an epoch in total_steps above
INSTANTIATE_TEST_SUITE_P(
    All, Preset,
    testing::Values(Published{"hashformer_pretrain", 500000, 10000, 128 * 512, 5e-9, 5e-5, 0, 0.9999, 1e-8, 0.01, 0.1},
                    Published{"hashformer_finetune", 5 * kEpochs, 322122547, 32 * 512, 3e-5 / 322122547, 3e-5, 0, 0.999,
                              1e-6, 0, 0.1},
                    Published{"mhe_pretrain", 1000000, 10000, 128 * 512, 1e-8, 1e-4, 0, 0.9999, 1e-8, 0.01, 0.1},
                    Published{"mhe_finetune", 20 * kEpochs, 1288490189, 32 * 512, 3e-5 / 1288490189, 3e-5, 0, 0.999,
                              1e-6, 0, 0.1},
                    Published{"mhe_nmt", 100000, 4000, 256 * 100, 1.746928e-7, 6.987712e-4,
                              1 / std::sqrt(512.0 * 100000), 0.95, 1e-8, 0.1, 0.1},
                    Published{"decon_pretrain", 28610, 2000, 524288, 2e-7, 4e-4, 0, 0.9999, 1e-8, 0.1, 0},
                    Published{"hadamard_pretrain", 38146, 381, 262144, 6e-4 / 381, 6e-4, 0, 0.95, 1e-8, 0.1, 0}),
    [](const auto& info) { return info.param.name; });

TEST(Presets, EffectiveBatchIsPerDeviceTimesDevices) {
  EXPECT_EQ(preset("decon_pretrain").train.batch_tokens, 524288);
  EXPECT_EQ(preset("hashformer_pretrain").train.gradient_accumulation_steps, 8);
  EXPECT_EQ(preset("hashformer_pretrain").train.micro_batch_tokens(), 16 * 512);
  EXPECT_EQ(preset("mhe_pretrain").train.gradient_accumulation_steps, 4);
  EXPECT_EQ(preset("mhe_pretrain").train.micro_batch_tokens(), 32 * 512);
}

// Parameters as published; docs/cost-model.md has the formulas.
struct Size {
  std::string name;
  std::vector<std::string> set;
  int64_t parameters, layers, mixers;  // all; of the layers; of their mixers; 0: not published
};

class PresetSize : public testing::TestWithParam<Size> {};

// oracle: decon.model_sizes, acct.hadamard
TEST_P(PresetSize, IsThePublishedOne) {
  const Size& want = GetParam();
  Recipe r = load_recipe("recipes/presets/" + want.name + ".yaml", want.set);
  r.model.vocab_size = r.data.tokenizer.vocab_size;
  r.model.max_position_embeddings = r.data.sequence_length;
  const analyze::ModelCost cost = analyze::model_cost(r.model, {.length = 64});
  int64_t layers = 0, mixers = 0;
  for (const analyze::CostOfPart& part : cost.parts) {
    if (part.part.starts_with("layers")) layers += part.parameters;
    if (part.part == "layers.*.mixer") {
      mixers += part.parameters;
      EXPECT_EQ(part.published.parameters, double(part.parameters));
    }
  }
  if (want.parameters) {
    EXPECT_EQ(cost.total.parameters, want.parameters);
  }
  if (want.layers) {
    EXPECT_EQ(layers, want.layers);
  }
  if (want.mixers) {
    EXPECT_EQ(mixers, want.mixers);
  }
}

const std::vector<std::string> plain_heads(const std::string& heads) {
  return {"model.mixer.heads=" + heads, "model.mixer.attention_bias=false", "model.mixer.output_bias=false"};
}
constexpr int64_t kGpt2 = 124'439'808, kGpt2Mixers = 12 * 4 * 768 * (768 + 1);
INSTANTIATE_TEST_SUITE_P(
    All, PresetSize,
    testing::Values(Size{"decon_pretrain", {}, 25'181'184 + 512 + 2 * 50'304 * 512, 25'181'184, 0},
                    Size{"decon_160m", {}, 113'292'288 + 768 + 50'304 * 768, 113'292'288, 0},
                    Size{"decon_500m", {}, 390'964'224 + 896 + 2 * 50'304 * 896, 390'964'224, 0},
                    Size{"decon_1.7b", {}, 1'526'841'344 + 2048 + 2LL * 50'304 * 2048, 1'526'841'344, 0},
                    Size{"hadamard_pretrain", {}, 123'701'760, 0, 0}, Size{"hadamard_small", {}, 353'806'304, 0, 0},
                    Size{"hadamard_base", {}, 757'275'648, 0, 0},
                    Size{"hadamard_pretrain", {"model.mixer.output=hadamard"}, 116'633'088, 0, 0},
                    Size{"hadamard_small", {"model.mixer.output=hadamard"}, 328'665'056, 0, 0},
                    Size{"hadamard_base", {"model.mixer.output=hadamard"}, 700'689'408, 0, 0},
                    Size{"gpt2_base", {}, kGpt2, 0, kGpt2Mixers},
                    Size{"gpt2_base", plain_heads("mha"), kGpt2 - kGpt2Mixers + 28'311'552, 0, 28'311'552},
                    Size{"gpt2_base", plain_heads("sha"), kGpt2 - kGpt2Mixers + 8'847'360, 0, 8'847'360},
                    Size{"gpt2_base", plain_heads("skv"), kGpt2 - kGpt2Mixers + 21'233'664, 0, 21'233'664},
                    Size{"gpt2_base", plain_heads("el_att"), kGpt2 - kGpt2Mixers + 14'155'776, 0, 14'155'776},
                    Size{"gpt2_base", plain_heads("mqa"), kGpt2 - kGpt2Mixers + 15'335'424, 0, 15'335'424},
                    Size{"gpt2_base", plain_heads("mhe_add"), kGpt2 - kGpt2Mixers + 8'875'008, 0, 8'875'008},
                    Size{"mhe_pretrain", {}, 0, 0, 8'875'008}),
    [](const auto& info) {
      std::string name = info.param.name + (info.param.set.empty() ? "" : info.param.set[0].substr(17));
      std::replace(name.begin(), name.end(), '.', '_');
      std::replace(name.begin(), name.end(), '=', '_');
      return name;
    });

// Every recipe in the repository is read, is valid, and comes back the same from what a run stores.
TEST(Recipes, AllParseAndRoundTrip) {
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator("recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    // Experiments change recipes; tests/compare reads them.
    if (parse_yaml(read_file(entry.path()), entry.path().string()).find("variants")) continue;
    SCOPED_TRACE(entry.path());
    ++count;
    const Recipe r = load_recipe(entry.path(), {});
    r.train.validate(r.data.sequence_length);
    r.generate.validate();
    const std::string stored = to_yaml(resolved(r));
    const fs::path file = fs::temp_directory_path() / ("lithe_round_trip_" + std::to_string(::getpid()) + ".yaml");
    write_file(file, stored);
    EXPECT_EQ(to_yaml(resolved(load_recipe(file, {}))), stored);
    fs::remove(file);
    EXPECT_EQ(read_file(entry.path()).front(), '#') << "a shipped recipe says what it is in its first line";
  }
  EXPECT_GE(count, 9);
}

}  // namespace
}  // namespace lithe
