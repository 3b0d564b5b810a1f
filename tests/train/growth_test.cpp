// Runs whose models grow while they learn.
#include "lithe/train/growth.h"

#include "lithe/model/safetensors.h"
#include "lithe/train/checkpoint.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

std::string training(const std::string& growth, const std::string& more = "") {
  return "{max_steps: 12, batch_tokens: 64, learning_rate: 0.01, logging_steps: 2, eval_steps: 3, save_steps: 2, "
         "save_total_limit: 9, growth: " +
         growth + more + "}";
}

const char* const kGrowths[] = {"{steps: [4, 7], layers: [2, 4]}",
                                "{steps: [4, 7], layers: [2, 4], optimizer_state: copy, zero_new_residual: true}",
                                "{steps: [4, 7], width: [2, 4]}"};

// oracle: grow.depth_stack
TEST(Growth, ARunThatIsKilledAtAnyCheckpointEndsWithTheSameBits) {
  const kit::TrainKit kit;
  int number = 0;
  for (const char* growth : kGrowths) {
    const TrainRun whole = kit.run("", kit::kHeldOutData, training(growth), cat("whole", ++number));
    EXPECT_EQ(train(whole).status, RunStatus::finished);
    for (const int64_t last : {2, 4, 6, 8}) {
      SCOPED_TRACE(cat(growth, " ", last));
      const TrainRun run = kit.killed_after(whole, last, cat("killed", number, "-", last));
      train(run);
      for (const char* file : {"model.safetensors", "metrics.jsonl", "config.json", "best/model.safetensors"})
        EXPECT_TRUE(read_file(run.out / file) == read_file(whole.out / file)) << file;
    }
  }
}

// oracle: grow.depth_stack
// oracle: grow.width_tile
TEST(Growth, TheModelHasEachSizeInItsTime) {
  const kit::TrainKit kit;
  int number = 0;
  for (const char* growth : kGrowths) {
    const TrainRun run = kit.run("", kit::kHeldOutData, training(growth), cat("run", ++number));
    train(run);
    const bool wide = number == 3;
    EXPECT_EQ(load_config(run.out / "config.json").num_hidden_layers, wide ? 1 : 4);
    EXPECT_EQ(load_config(run.out / "config.json").hidden_size, wide ? 64 : 16);
    const auto size = [&](int64_t step, const std::string& name) -> int64_t {
      const SafetensorsFile file(checkpoint_path(run.out, step) / "model.safetensors");
      const auto found = file.entries().find(name);
      return found == file.entries().end() ? 0 : found->second.shape[0];
    };
    for (const auto& [step, copies] : std::vector<std::pair<int64_t, int64_t>>{{2, 1}, {4, 1}, {6, 2}, {8, 4}, {12, 4}})
      if (wide) {
        EXPECT_EQ(size(step, "layers.0.ffn.up.weight"), 16 * copies) << step;
      } else {
        for (int64_t layer = 0; layer < 4; ++layer)
          EXPECT_EQ(size(step, cat("layers.", layer, ".ffn.up.weight")), layer < copies ? 16 : 0) << step;
      }
  }
}

// The first step after a growth that keeps the function begins at the loss that the small model would have had.
// oracle: grow.depth_stack
TEST(Growth, KeepsTheFunctionWhereNewLayersAddNothing) {
  const kit::TrainKit kit;
  const auto train_of = [&](const std::string& growth) {
    return "{max_steps: 6, batch_tokens: 64, learning_rate: 0.01, logging_steps: 1" + growth + "}";
  };
  const TrainRun plain = kit.run("", kit::kHeldOutData, train_of(""), "plain"),
                 deeper = kit.run("", kit::kHeldOutData,
                                  train_of(", growth: {steps: [4], layers: [3], zero_new_residual: true}"), "deeper"),
                 wider =
                     kit.run("", kit::kHeldOutData, train_of(", growth: {steps: [4], width: [2], noise: 0}"), "wider"),
                 copied = kit.run("", kit::kHeldOutData, train_of(", growth: {steps: [4], layers: [3]}"), "copied");
  for (const TrainRun& run : {plain, deeper, wider, copied}) train(run);
  const double want = kit::losses_of(plain.out).at(5);
  EXPECT_NEAR(kit::losses_of(deeper.out).at(5), want, 1e-5 * want);
  EXPECT_NEAR(kit::losses_of(wider.out).at(5), want, 1e-5 * want);
  EXPECT_GT(std::abs(kit::losses_of(copied.out).at(5) - want), 1e-4 * want);
  EXPECT_NE(kit::losses_of(deeper.out).at(6), kit::losses_of(plain.out).at(6));
}

TEST(Growth, MomentsCountFromWhereTheyBegan) {
  GrowthConfig reset{.steps = {4, 7}, .layers = {2, 4}}, copy = reset;
  copy.optimizer_state = "copy";
  const std::vector<int64_t> counts{1, 2, 3, 4, 1, 2, 3, 1, 2, 3};
  for (int64_t step = 1; step <= 10; ++step) {
    EXPECT_EQ(steps_of_moments(reset, step), counts[size_t(step - 1)]);
    EXPECT_EQ(steps_of_moments(copy, step), step);
  }
}

TEST(Growth, RefusesWhatCannotGrow) {
  const kit::TrainKit kit;
  const auto refused = [&](const std::string& model, const std::string& growth, const std::string& why) {
    const std::string error =
        kit::coded_error_of([&] { train(kit.run(model, kit::kHeldOutData, training(growth), "refused")); });
    EXPECT_TRUE(error.starts_with("2 ") && error.find(why) != std::string::npos) << error;
  };
  refused("", "{layers: [2]}", "no steps");
  refused("", "{steps: [4], layers: [2], width: [2]}", "one of them");
  refused("", "{steps: [4, 4], layers: [2, 4]}", "must rise");
  refused("", "{steps: [4, 7], layers: [2]}", "2 steps and 1 sizes");
  refused("", "{steps: [4, 7], layers: [2, 3]}", "multiple");
  refused("", "{steps: [12], layers: [2]}", "ends after step 12");
  refused("", "{steps: [4], width: [2], optimizer_state: copy}", "is for layers");
}

}  // namespace
}  // namespace lithe
