// What parts show of themselves in a run's log.
#include <cmath>

#include "lithe/train/checkpoint.h"
#include "lithe/train/step.h"
#include "tests/support/model_kit.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

constexpr const char* kExpertData = "{sequence_length: 16, documents: line}";

std::string experts(const std::string& more = "") {
  return cat(
      "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 16, mixer: {type: attention, "
      "num_attention_heads: 2}, ",
      "ffn: {type: moe, num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 8}", more, "}");
}

std::vector<Json> statistics_of(const Path& run) {
  std::vector<Json> out;
  for (const Json& line : kit::json_lines(run / "metrics.jsonl"))
    if (line.contains("loss")) out.push_back(line.contains("statistics") ? line["statistics"] : Json());
  return out;
}

TEST(PartStatistics, ALineHasTheLoadsAndTheEntropyOfEachLayersRouter) {
  const kit::TrainKit kit;
  const TrainRun run =
      kit.run(experts(), kExpertData, "{max_steps: 6, batch_tokens: 64, learning_rate: 3.0e-3, logging_steps: 2}");
  train(run);
  const std::vector<Json> lines = statistics_of(run.out);
  ASSERT_EQ(lines.size(), 3u);
  for (const Json& line : lines) {
    EXPECT_EQ(line.size(), 2u);
    for (const char* layer : {"1", "2"}) {
      const auto load = line["expert_load"][layer].get<std::vector<double>>();
      ASSERT_EQ(load.size(), 4u);
      double sum = 0;
      for (const double share : load) {
        EXPECT_GE(share, 0);
        EXPECT_LE(share, 0.5);  // each of 2 choices takes another expert
        sum += share;
      }
      EXPECT_NEAR(sum, 1, 3e-6);
      const auto entropy = line["router_entropy"][layer].get<std::vector<double>>();
      ASSERT_EQ(entropy.size(), 1u);
      EXPECT_GT(entropy[0], 0.2);
      EXPECT_LE(entropy[0], std::log(4.0) + 1e-6);
    }
  }
}

TEST(PartStatistics, ModelsWithoutThemLogNone) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", kExpertData, "{max_steps: 2, batch_tokens: 64, logging_steps: 1}");
  train(run);
  for (const Json& line : statistics_of(run.out)) EXPECT_TRUE(line.is_null());
}

// What is run again in the backward pass is not counted again; micro-batches count by their rows.
TEST(PartStatistics, AreThoseOfTheStepHoweverItIsRun) {
  const kit::TrainKit kit;
  const auto lines = [&](const std::string& name, const std::string& train_section, const std::string& model = "") {
    const TrainRun run = kit.run(experts(model), kExpertData,
                                 "{max_steps: 2, learning_rate: 3.0e-3, logging_steps: 2, " + train_section, name);
    train(run);
    return statistics_of(run.out);
  };
  EXPECT_EQ(lines("plain", "batch_tokens: 64}"),
            lines("recomputed", "batch_tokens: 64, gradient_checkpointing: true}"));
  const auto reversible = lines("reversible", "batch_tokens: 64}", ", stack: {type: reversible}");
  ASSERT_EQ(reversible.size(), 1u);
  EXPECT_EQ(reversible[0]["expert_load"].size(), 2u);

  const ModelConfig config = kit::model_config(experts());
  const auto of = [&](int64_t parts) {
    Model model(config, {.trainable = true});
    std::vector<DeviceBatch> batches;
    for (int64_t first = 0; first < 2; first += 2 / parts) {
      Batch batch;
      batch.offsets = {0};
      for (int64_t sequence = first; sequence < first + 2 / parts; ++sequence) {
        for (int64_t t = 0; t < 6; ++t) {
          batch.tokens.push_back(int32_t(5 + 7 * (6 * sequence + t) % 200));
          batch.labels.push_back(3);
        }
        batch.offsets.push_back(int64_t(batch.tokens.size()));
      }
      batches.push_back(to_device(batch, Device::cpu));
    }
    return accumulate_gradients(model, TrainedObjective({}, model), batches, {}, 1).statistics;
  };
  const Statistics together = of(1), apart = of(2);
  ASSERT_EQ(together.size(), 4u);
  for (const auto& [key, statistic] : together) {
    const std::vector<double> want = statistic.means(), got = apart.at(key).means();
    EXPECT_EQ(statistic.weight, 12);
    EXPECT_EQ(apart.at(key).weight, 12);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << key.first;
  }
}

TEST(PartStatistics, AResumedRunLogsThemAsOneThatNeverStopped) {
  const kit::TrainKit kit;
  const std::string section =
      "{max_steps: 8, batch_tokens: 64, learning_rate: 3.0e-3, logging_steps: 4, save_steps: 3, save_total_limit: 9}";
  const TrainRun whole = kit.run(experts(), kExpertData, section, "whole");
  train(whole);
  TrainRun run = kit.run(experts(), kExpertData, section, "resumed");
  train(run);
  drop_checkpoints_after(run.out, 3);  // in the middle of an interval
  std::filesystem::remove(run.out / "result.json");
  run.resume = true;
  train(run);
  EXPECT_EQ(read_file(run.out / "metrics.jsonl"), read_file(whole.out / "metrics.jsonl"));
}

}  // namespace
}  // namespace lithe
