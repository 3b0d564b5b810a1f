// A loss that is multiplied, and steps whose gradients overflow.
#include "lithe/train/step.h"
#include "tests/support/model_kit.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

const std::string kScaledTrain =
    "{max_steps: 6, batch_tokens: 64, learning_rate: 0.01, logging_steps: 1, save_steps: 2, save_total_limit: 9";

// oracle: hpc.mixed
TEST(LossScaling, APowerOfTwoChangesNothing) {
  const kit::TrainKit kit;
  const TrainRun plain = kit.run("", "{sequence_length: 16}", kScaledTrain + "}", "plain");
  train(plain);
  for (const std::string type : {"fixed", "dynamic"}) {
    const TrainRun scaled = kit.run("", "{sequence_length: 16}",
                                    kScaledTrain + ", loss_scaling: {type: " + type + ", growth_interval: 2}}", type);
    train(scaled);
    EXPECT_TRUE(read_file(plain.out / "model.safetensors") == read_file(scaled.out / "model.safetensors")) << type;
    EXPECT_EQ(kit::losses_of(plain.out), kit::losses_of(scaled.out)) << type;
  }
}

TEST(LossScaling, AStepThatOverflowsChangesNoParameter) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", "{sequence_length: 16}",
                               kScaledTrain + ", loss_scaling: {type: dynamic, initial: 1.0e38, growth_interval: 1}}");
  train(run);
  const auto state = [&](int64_t step) {
    return parse_json(read_file(checkpoint_path(run.out, step) / "state.json"), "state")["loss_scaling"];
  };
  // 1e38 times any gradient of this model overflows: halved until it does not.
  EXPECT_EQ(double(state(2).at(0)), 1e38 / 4);
  EXPECT_EQ(int64_t(state(2).at(2)), 2);
  const auto weights = [&](int64_t step) { return read_file(checkpoint_path(run.out, step) / "model.safetensors"); };
  EXPECT_TRUE(weights(2) == weights(4) || int64_t(state(4).at(2)) < 4);
  const int64_t left_out = state(6).at(2);
  EXPECT_EQ(parse_json(read_file(run.out / "result.json"), "result")["overflowed_steps"], left_out);
  EXPECT_EQ(kit::json_lines(run.out / "metrics.jsonl").back()["overflowed_steps"], left_out);
  // The norm of an interval is the mean of the steps that were taken: of all at once as of each.
  const TrainRun at_once = kit.run("", "{sequence_length: 16}",
                                   "{max_steps: 6, batch_tokens: 64, learning_rate: 0.01, logging_steps: 6, "
                                   "loss_scaling: {type: dynamic, initial: 1.0e38, growth_interval: 1}}",
                                   "at-once");
  train(at_once);
  double norms = 0;
  for (const Json& line : kit::json_lines(run.out / "metrics.jsonl"))
    if (line.contains("grad_norm")) norms += double(line["grad_norm"]);
  EXPECT_NEAR(kit::json_lines(at_once.out / "metrics.jsonl").back()["grad_norm"], norms / double(6 - left_out), 1e-6);
  // A run that was killed goes on alike.
  const TrainRun again = kit.killed_after(run, 2, "again");
  train(again);
  EXPECT_TRUE(read_file(again.out / "model.safetensors") == read_file(run.out / "model.safetensors"));
}

TEST(LossScaling, GradientsAreTimesItAndLossesAreNot) {
  Model one(
      kit::model_config("{vocab_size: 37, max_position_embeddings: 16, hidden_size: 16, num_hidden_layers: 1, mixer: "
                        "{type: attention, "
                        "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 24, activation_penalty: 2}}"),
      {.trainable = true});
  const TrainedObjective objective({}, one);
  Batch batch;
  batch.offsets = {0, 9};
  for (int32_t t = 0; t < 9; ++t) batch.tokens.push_back(t), batch.labels.push_back(t + 1);
  const std::vector<DeviceBatch> all{to_device(batch, Device::cpu)};
  const StepLosses a = accumulate_gradients(one, objective, all, {}, 1);
  const Gradients plain = take_gradients(one, objective);
  const StepLosses b = accumulate_gradients(one, objective, all, {}, 1, nullptr, 1024);
  const Gradients scaled = take_gradients(one, objective);
  EXPECT_EQ(a.objective.loss, b.objective.loss);
  EXPECT_EQ(a.auxiliary, b.auxiliary);
  for (size_t i = 0; i < plain.of.size(); ++i)
    for (int64_t j = 0; plain.of[i].defined() && j < plain.of[i].numel(); ++j)
      ASSERT_EQ(1024 * value_at(plain.of[i], j), value_at(scaled.of[i], j));
}

// The storage halves, and what bf16 has comes back as it was.
TEST(MixedPrecision, HalfTheBytesAndTheSameNumbers) {
  for (const float value : {1.f, -0.5f, 3.140625f, 65280.f, 0x1p-120f}) EXPECT_EQ(float(bf16(value)), value);
  const ModelConfig config = kit::model_config(
      "{vocab_size: 37, max_position_embeddings: 16, hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: "
      "{type: relu, intermediate_size: 24}}");
  const Model wide(config, {}), half(config, {.dtype = DType::bf16, .compute = DType::bf16});
  for (const Parameter& p : wide.parameters().all()) {
    if (p.master.shape().rank() != 2) continue;
    for (const Parameter& h : half.parameters().all()) {
      if (h.name == p.name) {
        EXPECT_EQ(2 * h.bytes(), p.bytes()) << p.name;
      }
    }
  }
}

}  // namespace
}  // namespace lithe
