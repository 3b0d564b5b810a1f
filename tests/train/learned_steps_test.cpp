// Training with rounded weights whose steps are learned, as a run.
#include <cmath>

#include "lithe/model/safetensors.h"
#include "lithe/train/rounded_training.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

TEST(LearnedSteps, ARunGoesOnAfterAKillAndKeepsItsStepsBesideItsWeights) {
  const kit::TrainKit kit;
  const TrainRun whole = kit.run("", kit::kHeldOutData,
                                 "{max_steps: 8, batch_tokens: 64, learning_rate: 0.01, save_steps: 4, eval_steps: 4, "
                                 "rounding: {weights: int4, steps: learned}}",
                                 "whole");
  train(whole);
  const auto steps = RoundedWeights::learned_steps(whole.out / "model.safetensors");
  EXPECT_GE(steps.size(), 5u);
  EXPECT_TRUE(std::filesystem::exists(whole.out / "best" / "rounding.safetensors"));
  // They have moved from where the search puts them.
  const SafetensorsFile first(checkpoint_path(whole.out, 4) / "objective.safetensors"),
      last(checkpoint_path(whole.out, 8) / "objective.safetensors");
  int64_t moved = 0;
  for (const auto& [name, entry] : last.entries()) {
    const Tensor a = empty(entry.shape, entry.dtype), b = empty(entry.shape, entry.dtype);
    first.read(name, a);
    last.read(name, b);
    for (int64_t i = 0; i < a.numel(); ++i) {
      EXPECT_TRUE(!name.ends_with(".sign") || value_at(a, i) == value_at(b, i)) << name;
      moved += value_at(a, i) != value_at(b, i);
    }
  }
  EXPECT_GT(moved, 0);
  // What is published is what was evaluated: the rounded weights, not the masters of the checkpoint.
  EXPECT_TRUE(read_file(whole.out / "model.safetensors") !=
              read_file(checkpoint_path(whole.out, 8) / "model.safetensors"));
  const TrainRun again = kit.killed_after(whole, 4, "again");
  train(again);
  for (const char* file : {"model.safetensors", "rounding.safetensors", "best/rounding.safetensors"})
    EXPECT_TRUE(read_file(again.out / file) == read_file(whole.out / file)) << file;
}

TEST(LearnedSteps, PlansAreExactAndGrowthIsRefused) {
  const kit::TrainKit kit;
  const TrainRun run =
      kit.run("", "{sequence_length: 16}",
              "{max_steps: 2, batch_tokens: 64, rounding: {weights: int8, steps: learned}}", "planned");
  const TrainResult result = train(run);
  EXPECT_EQ(result.measured.peak, result.planned.peak);
  const TrainRun grows =
      kit.run("", "{sequence_length: 16}",
              "{max_steps: 4, batch_tokens: 64, growth: {steps: [2], layers: [2]}, rounding: {weights: "
              "int8, steps: learned}}",
              "grows");
  EXPECT_NE(kit::coded_error_of([&] { train(grows); }).find("2 train: rounding.steps learned"), std::string::npos);
  const TrainRun off = kit.run("", "{sequence_length: 16}", "{max_steps: 4, rounding: {steps: learned}}", "off");
  EXPECT_NE(kit::coded_error_of([&] { train(off); }).find("steps are of rounded weights"), std::string::npos);
}

}  // namespace
}  // namespace lithe
