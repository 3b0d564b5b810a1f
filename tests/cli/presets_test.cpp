// The recipes that come with lithe: published hyperparameters, and that all of them can be read.
#include <gtest/gtest.h>

#include <cmath>

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
