// Training that carries states from segment to segment.
#include <filesystem>

#include "lithe/base/stop.h"
#include "lithe/data/lanes.h"
#include "lithe/train/checkpoint.h"
#include "lithe/train/step.h"
#include "tests/support/model_kit.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

const std::string kHead =
    "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, ffn: {type: swiglu, intermediate_size: 24}, ";
// Each with a state of another kind.
const std::vector<std::string> kModels{
    "position: {type: xl, max_distance: 12}, mixer: {type: attention, num_attention_heads: 2, heads: hidden_rows, "
    "field: "
    "{type: span, left: 12}}}",
    "position: rotary, mixer: {type: attention, num_attention_heads: 2, field: {type: union, fields: [{type: span, "
    "left: "
    "8}, {type: global, tokens: 2}]}}}",
    "position: none, mixer: {type: lstm}}",
    "position: none, mixer: {type: memory_attention, num_attention_heads: 2, memory: {type: snapshot, slots: 4, chunk: "
    "4}}}",
    "position: rotary, mixer: {type: memory_attention, num_attention_heads: 2, memory: {type: short_long, window: 6, "
    "long: {type: priority_queue, slots: 6}}}}"};
const std::string kCarriedData = "{sequence_length: 16, validation_fraction: 0.1, documents: paragraph}";
const std::string kCarriedTrain =
    "{carry_state: true, max_steps: 12, batch_tokens: 64, gradient_accumulation_steps: 2, learning_rate: 0.01, "
    "logging_steps: 2, eval_steps: 6, save_steps: 4, save_total_limit: 3}";

// oracle: mem.xl
TEST(CarryState, AResumeEndsTheSameToTheBit) {
  const kit::TrainKit kit;
  for (size_t i = 0; i < kModels.size(); ++i) {
    SCOPED_TRACE(kModels[i]);
    const TrainRun whole = kit.run(kHead + kModels[i], kCarriedData, kCarriedTrain, cat("whole", i));
    train(whole);
    const Path out = kit.scratch.path() / cat("resumed", i);
    fs::copy(whole.out, out, fs::copy_options::recursive);
    fs::remove_all(checkpoint_path(out, 12));
    fs::remove_all(checkpoint_path(out, 8));
    TrainRun run = whole;
    run.out = out;
    run.resume = true;
    train(run);
    for (const char* file : {"model.safetensors", "metrics.jsonl"})
      EXPECT_TRUE(read_file(out / file) == read_file(whole.out / file)) << file;
    EXPECT_TRUE(read_file(checkpoint_path(out, 12) / "carried.safetensors") ==
                read_file(checkpoint_path(whole.out, 12) / "carried.safetensors"));
  }
}

TEST(CarryState, TheStatesOfACheckpointAreChecked) {
  const kit::TrainKit kit;
  const TrainRun whole = kit.run(kHead + kModels[2], kCarriedData, kCarriedTrain);
  train(whole);
  const Path file = checkpoint_path(whole.out, 12) / "carried.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 1);
  write_file(file, bytes);
  TrainRun run = whole;
  run.resume = true;
  const std::string error = kit::coded_error_of([&] { train(run); });
  EXPECT_EQ(error.substr(0, 10), "1 resume: ") << error;
  EXPECT_NE(error.find("carried.safetensors"), std::string::npos) << error;
}

// A batch of one document in one lane, in segments: the loss is that of the whole document.
TEST(CarryState, SegmentsHaveTheLossOfTheWholeDocument) {
  std::vector<int32_t> document;
  for (int64_t i = 0; i < 41; ++i) document.push_back(int32_t(random_below({.seed = 5}, uint64_t(i), 257)));
  const TokenStore store = TokenStore::from_documents({document}, {.vocab_size = 257});
  for (const std::string& options : kModels) {
    SCOPED_TRACE(options);
    Model model(kit::model_config(kHead + options, "max_position_embeddings: 64"),
                {.dtype = DType::f64, .compute = DType::f64, .seed = 3, .trainable = true});
    const TrainConfig config;
    const TrainedObjective objective(config, model);
    const auto loss = [&](int64_t length) {
      const LaneOrder order(store, length, 1);
      CarriedState carried(model, 1, 40);
      LossSums sums;
      for (int64_t k = 0; k < order.batches_per_epoch(); ++k)
        sums += accumulate_gradients(model, objective, {to_device(order.batch(0, k), Device::cpu)}, config, 1, &carried)
                    .objective;
      return sums.mean_nll();
    };
    EXPECT_NEAR(loss(40), loss(8), 1e-9);
    EXPECT_NEAR(loss(40), loss(3), 1e-9);
  }
}

TEST(CarryState, ADocumentThatEndsResetsItsLane) {
  std::vector<std::vector<int32_t>> documents(3);
  for (int64_t i = 0; i < 45; ++i)
    documents[size_t(i / 15)].push_back(int32_t(random_below({.seed = 5}, uint64_t(i), 257)));
  const TokenStore store = TokenStore::from_documents(documents, {.vocab_size = 257});
  Model model(kit::model_config(kHead + kModels[0], "max_position_embeddings: 64"),
              {.dtype = DType::f64, .compute = DType::f64, .trainable = true});
  const TrainConfig config;
  const TrainedObjective objective(config, model);
  CarriedState carried(model, 1, 14);
  const LaneOrder order(store, 8, 1);
  LossSums sums, alone;
  for (int64_t k = 0; k < order.batches_per_epoch(); ++k)
    sums += accumulate_gradients(model, objective, {to_device(order.batch(0, k), Device::cpu)}, config, 1, &carried)
                .objective;
  const BatchOrder whole(store, 14, 42, 0, false);
  alone += accumulate_gradients(model, objective, {to_device(whole.batch(0, 0), Device::cpu)}, config, 1).objective;
  EXPECT_EQ(sums.labels, alone.labels);
  EXPECT_NEAR(sums.mean_nll(), alone.mean_nll(), 1e-9);
}

TEST(CarryState, RefusesWhatCannotCarry) {
  const kit::TrainKit kit;
  const auto refused = [&](const std::string& model, const std::string& more, const std::string& data = "") {
    return kit::coded_error_of([&] {
      train(kit.run(kHead + model, data.empty() ? kCarriedData : data,
                    "{carry_state: true, max_steps: 2, batch_tokens: 64" + more + "}", "refused"));
    });
  };
  const auto expect = [](const std::string& error, const std::string& part) {
    EXPECT_EQ(error.substr(0, 2), "2 ") << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  const std::string attention = "mixer: {type: attention, num_attention_heads: 2";
  expect(refused("position: rotary, " + attention + "}}", ""), "carry_state needs states of bounded size");
  expect(
      refused("position: learned, max_position_embeddings: 16, " + attention + ", field: {type: span, left: 8}}}", ""),
      "go on beyond the 16 positions");
  expect(refused(kModels[2], ", gradient_checkpointing: true"), "gradient_checkpointing runs each layer twice");
  expect(refused(kModels[2], "", "{sequence_length: 24}"), "must be a multiple of it");
  expect(refused("position: rotary, " + attention + ", attention_dropout: 0.1, field: {type: local, window: 8}}}", ""),
         "attention_dropout has no form");
}

}  // namespace
}  // namespace lithe
