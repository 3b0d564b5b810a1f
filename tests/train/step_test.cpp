// The sums of a step do not depend on who runs its micro-batches.
#include "lithe/train/step.h"

#include "tests/support/model_kit.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

const std::string kStepModel =
    "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 3, max_position_embeddings: 16, mixer: {type: attention, "
    "num_attention_heads: 2}, ffn: "
    "{type: relu, intermediate_size: 24, activation_penalty: 2}, hidden_dropout: 0.1, stack: {type: early_exit, "
    "layers: [2]}}";

std::vector<DeviceBatch> batches_of(int64_t count) {
  std::vector<DeviceBatch> out;
  for (int64_t i = 0; i < count; ++i) {
    Batch batch;
    batch.offsets = {0, 7 + i % 3};
    for (int64_t t = 0; t < batch.offsets.back(); ++t) {
      batch.tokens.push_back(int32_t((31 * i + 17 * t) % 257));
      batch.labels.push_back(t % 4 ? int32_t((5 * i + 7 * t) % 257) : -1);
    }
    out.push_back(to_device(batch, Device::cpu));
  }
  return out;
}

// With an objective that has parameters of its own.
TrainConfig config_of_step() {
  TrainConfig config;
  config.auxiliary_objectives = parse_yaml("{low: {type: layer_prediction, layer: 1}}", "test");
  return config;
}

struct Worker {
  Model model{kit::model_config(kStepModel), {.seed = 5, .trainable = true}};
  TrainedObjective objective{config_of_step(), model};
};

struct Sum {
  StepLosses losses;
  Gradients gradients;
};

// Micro-batches begin to end of all, run by a worker of its own and added along the tree by hand.
Sum sum_of(const std::vector<DeviceBatch>& all, int64_t begin, int64_t end, const TrainConfig& config) {
  int64_t left = 1;
  while (2 * left < end - begin) left *= 2;
  if (end - begin > 1) {
    Sum a = sum_of(all, begin, begin + left, config), b = sum_of(all, begin + left, end, config);
    a.losses += b.losses;
    a.gradients += std::move(b.gradients);
    return a;
  }
  const Worker worker;
  const MicroBatchPlace place{.step = 3, .index = begin, .of = int64_t(all.size()), .labelled = labels_of(all)};
  StepLosses losses = run_micro_batch(worker.model, worker.objective, all[size_t(begin)], place, config);
  return {std::move(losses), take_gradients(worker.model, worker.objective)};
}

TEST(Step, GradientsAndLossesAreTheSameWhoeverRunsTheMicroBatches) {
  set_threads(1);
  for (const int64_t count : {1, 2, 3, 5, 8}) {
    const std::vector<DeviceBatch> all = batches_of(count);
    const TrainConfig config = config_of_step();
    const Worker one;
    const StepLosses losses = accumulate_gradients(one.model, one.objective, all, config, 3);
    const Sum want = sum_of(all, 0, count, config);
    EXPECT_EQ(losses.objective.loss, want.losses.objective.loss) << count;
    EXPECT_EQ(losses.objective.labels, labels_of(all));
    EXPECT_EQ(losses.auxiliary, want.losses.auxiliary) << count;
    EXPECT_EQ(losses.auxiliary.size(), 3u);  // the exit's, the penalty, and that of the objective beside
    const Gradients gradients = take_gradients(one.model, one.objective);
    ASSERT_EQ(gradients.of.size(), want.gradients.of.size());
    for (size_t i = 0; i < gradients.of.size(); ++i) {
      ASSERT_TRUE(gradients.of[i].defined());
      EXPECT_EQ(kit::bit_difference(gradients.of[i], want.gradients.of[i]), "") << count << " " << i;
    }
  }
}

TEST(Step, WhatOnlySomeMicroBatchesReachKeepsItsGradient) {
  const Tensor two = tensor_of({2}, std::vector<float>{2, 2}), three = tensor_of({2}, std::vector<float>{3, 3});
  Gradients sum{{Tensor(), two, Tensor()}};
  sum += {{three, Tensor(), Tensor()}};
  EXPECT_EQ(sum.of[0].raw(), three.raw());
  EXPECT_EQ(sum.of[1].raw(), two.raw());
  EXPECT_FALSE(sum.of[2].defined());
  sum += {{two, Tensor(), Tensor()}};
  EXPECT_EQ(value_at(sum.of[0], 1), 5);
}

TEST(Step, ThePlanBooksTheTree) {
  const kit::TrainKit kit;
  constexpr int64_t kParameters = 257 * 16 + 4 * 16 * 16 + 3 * 16 * 24 + 2 * 16 + 16;  // see plan_test.cpp
  int64_t one = 0;
  for (const int64_t parts : {1, 2, 3, 4, 7, 8}) {
    const TrainResult result =
        train(kit.run("", "{sequence_length: 16}",
                      cat("{max_steps: 2, batch_tokens: ", 16 * parts, ", gradient_accumulation_steps: ", parts, "}"),
                      cat("parts", parts)));
    EXPECT_EQ(result.planned.peak, result.measured.peak) << parts;
    for (int c = 0; c < kMemoryClasses; ++c)
      EXPECT_EQ(result.planned.by_class[size_t(c)], result.measured.by_class[size_t(c)]) << parts << " " << c;
    // What is new then at the peak of one micro-batch, and the sums that wait for it.
    const int64_t gradients = result.planned.by_class[size_t(MemoryClass::gradients)];
    if (parts == 1) one = gradients;
    const int64_t waiting = parts == 1 ? 0 : parts < 4 ? 1 : parts < 8 ? 2 : 3;
    EXPECT_EQ(gradients, one + waiting * 4 * kParameters) << parts;
  }
}

}  // namespace
}  // namespace lithe
