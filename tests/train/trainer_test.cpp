// What a run does besides going on: limits, stability, equivalent ways to the same result.
#include "lithe/train/trainer.h"

#include <cmath>
#include <cstring>

#include "lithe/model/safetensors.h"
#include "lithe/train/checkpoint.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

const std::string kPlainData = "{sequence_length: 16}";

TEST(Trainer, AccumulationGivesTheSameLossUpToRounding) {
  const kit::TrainKit kit;
  std::map<int64_t, double> first;
  for (int64_t parts : {1, 2, 4}) {
    const TrainRun run = kit.run("", "{sequence_length: 16, validation_fraction: 0.1}",
                                 cat("{max_steps: 8, batch_tokens: 128, learning_rate: 0.01, logging_steps: 1, "
                                     "precision: f64, gradient_accumulation_steps: ",
                                     parts, "}"),
                                 cat("parts", parts));
    const TrainResult result = train(run);
    const auto losses = kit::losses_of(run.out);
    ASSERT_EQ(losses.size(), 8u);
    if (parts == 1) first = losses;
    // f64; sequences are cut at micro-batches of 128, 64 and 32 rows, all multiples of 16.
    for (const auto& [step, loss] : losses)
      EXPECT_NEAR(loss, first.at(step), 1e-10) << parts << " parts, step " << step;
    EXPECT_EQ(result.tokens, 8 * 128);
  }
}

TEST(Trainer, RecomputationGivesTheSameBits) {
  const kit::TrainKit kit;
  const std::string model =
      "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 3, mixer: {type: attention, num_attention_heads: 2}, ffn: "
      "{type: swiglu, intermediate_size: 24}, hidden_dropout: 0.1}";
  for (const char* precision : {"f32", "bf16"}) {
    std::string weights[2];
    int64_t peak[2];
    for (int on : {0, 1}) {
      const TrainRun run = kit.run(model, kPlainData,
                                   cat("{max_steps: 6, batch_tokens: 256, learning_rate: 0.01, precision: ", precision,
                                       ", gradient_checkpointing: ", on ? "true" : "false", "}"),
                                   cat(precision, on));
      peak[on] = train(run).measured.peak;
      weights[on] = read_file(run.out / "model.safetensors");
    }
    EXPECT_TRUE(weights[0] == weights[1]) << precision;
    EXPECT_LT(peak[1], peak[0]);
  }
}

TEST(Trainer, LearnsAndLogsEveryInterval) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run(
      "", "{sequence_length: 16, validation_fraction: 0.1}",
      "{max_steps: 60, batch_tokens: 128, learning_rate: 0.01, logging_steps: 7, eval_steps: 20, save_steps: 25}");
  const TrainResult result = train(run);
  const auto losses = kit::losses_of(run.out);
  std::vector<int64_t> steps;
  for (const auto& [step, loss] : losses) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<int64_t>{7, 14, 21, 28, 35, 42, 49, 56, 60}));
  EXPECT_NEAR(losses.at(7), std::log(257.0), 2);
  EXPECT_LT(losses.at(60), 3.0);
  std::vector<int64_t> evaluated;
  double best = INFINITY;
  for (const Json& line : kit::json_lines(run.out / "metrics.jsonl"))
    if (line.contains("eval_loss")) {
      evaluated.push_back(line["step"]);
      EXPECT_NEAR(line["eval_perplexity"].get<double>(), std::exp(line["eval_loss"].get<double>()), 1e-9);
      EXPECT_EQ(line["best"].get<bool>(), line["eval_loss"].get<double>() < best);
      best = std::min(best, line["eval_loss"].get<double>());
    }
  EXPECT_EQ(best, result.best_eval_loss);
  EXPECT_EQ(evaluated, (std::vector<int64_t>{0, 20, 40, 60}));
  // Two checkpoints are kept: the last ones.
  std::vector<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(run.out / "training_state"))
    kept.push_back(entry.path().filename());
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept, (std::vector<std::string>{"step-00000050", "step-00000060"}));
  EXPECT_EQ(parse_json(read_file(run.out / "result.json"), "result")["status"], "finished");
}

TEST(Trainer, FrozenParametersKeepTheirBitsAndTakeNoMemory) {
  const kit::TrainKit kit;
  const std::string steps = "{max_steps: 4, batch_tokens: 128, learning_rate: 0.01, precision: bf16, save_steps: 2";
  const TrainRun all = kit.run("", kPlainData, steps + "}", "all"),
                 some = kit.run("", kPlainData, steps + ", freeze: [embedding.*, '*.ffn.*']}", "some"),
                 none =
                     kit.run("", kPlainData, "{max_steps: 0, batch_tokens: 128, num_train_epochs: 1, freeze: ['*']}");
  const auto peak = train(all).measured.peak;
  EXPECT_LT(train(some).measured.peak, peak);
  const SafetensorsFile begin(checkpoint_path(some.out, 2) / "model.safetensors"),
      end(checkpoint_path(some.out, 4) / "model.safetensors"),
      moments(checkpoint_path(some.out, 4) / "optimizer.safetensors");
  int64_t frozen = 0;
  for (const auto& [name, entry] : begin.entries()) {
    const Tensor before = empty(entry.shape, entry.dtype), after = empty(entry.shape, entry.dtype);
    begin.read(name, before);
    end.read(name, after);
    const bool still = name.starts_with("embedding.") || name.find(".ffn.") != name.npos;
    EXPECT_EQ(std::memcmp(before.raw(), after.raw(), size_t(before.bytes())) == 0, still) << name;
    EXPECT_EQ(moments.entries().count("m." + name), still ? 0u : 1u) << name;
    frozen += still;
  }
  EXPECT_EQ(frozen, 4);
  EXPECT_EQ(kit::coded_error_of([&] { train(none); }),
            "2 train: train.freeze leaves no parameter to train; freeze fewer");
  EXPECT_NE(kit::coded_error_of([&] {
              train(kit.run("", kPlainData, "{max_steps: 2, batch_tokens: 128, freeze: [layer.0.*]}", "typo"));
            }).find("2 model: no parameter is named 'layer.0.*', which is to be frozen"),
            std::string::npos);
}

TEST(Trainer, AuxiliaryLossesAreLogged) {
  const kit::TrainKit kit;
  const std::string model =
      "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, mixer: {type: attention, num_attention_heads: 2}, ffn: "
      "{type: relu, intermediate_size: 24, activation_penalty: 2}}";
  const auto lines = [&](const char* parts) {
    const TrainRun run =
        kit.run(model, kPlainData,
                cat("{max_steps: 4, batch_tokens: 128, learning_rate: 0.01, logging_steps: 2, precision: "
                    "f64, gradient_accumulation_steps: ",
                    parts, "}"),
                parts);
    train(run);
    std::vector<double> losses;
    for (const Json& line : kit::json_lines(run.out / "metrics.jsonl")) {
      EXPECT_EQ(line.at("auxiliary").size(), 1u);
      losses.push_back(line["auxiliary"]["activation_penalty"]);
    }
    return losses;
  };
  const auto whole = lines("1"), parts = lines("2");
  ASSERT_EQ(whole.size(), 2u);
  ASSERT_EQ(parts.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_GT(whole[i], 0);
    EXPECT_NEAR(parts[i], whole[i], 1e-10);
  }
  EXPECT_LT(whole[1], whole[0]) << "it is part of what is minimised";
}

TEST(Trainer, EveryLimitEnds) {
  const kit::TrainKit kit(kit::small_text(1000));
  EXPECT_EQ(train(kit.run("", kPlainData, "{max_tokens: 200, batch_tokens: 64}", "tokens")).steps, 3);
  // About 1000 rows (one document with its end), 64 a step.
  const TrainResult epochs = train(kit.run("", kPlainData, "{num_train_epochs: 2, batch_tokens: 64}", "epochs"));
  const auto rows = int64_t(kit::small_text(1000).size()) + 1;
  EXPECT_EQ(epochs.steps, 2 * ((rows + 63) / 64));
  EXPECT_EQ(epochs.tokens, 2 * rows);  // two passes, the last batch of each is short
  const TrainRun clock =
      kit.run("", kPlainData,
              "{max_time: 0.005, batch_tokens: 64, lr_scheduler_type: constant, logging_steps: 1000000}", "clock");
  const TrainResult timed = train(clock);
  EXPECT_GT(timed.steps, 0);
  EXPECT_GE(timed.seconds, 0.3);
  EXPECT_LT(timed.seconds, 30);
  EXPECT_EQ(kit::losses_of(clock.out).size(), 1u);  // the interval that the clock cut is logged
  EXPECT_EQ(timed.status, RunStatus::finished);
}

// The only garbage of a text comes in one batch: its loss is a spike.
std::string text_with_garbage() {
  std::string text;
  for (int line = 0; line < 200; ++line)
    text += line == 130 ? "\x7f\x01\x7e\x02\x7d\x03\x7c\x04\x7b\x05\x7a\x06\x0e\x08\x0f\n" : "aaaaaaaaaaaaaaa\n";
  return text;
}

// oracle: train.stability
TEST(Trainer, ASpikeGoesBackOnceAndLeavesItsBatchOut) {
  const kit::TrainKit kit(text_with_garbage());
  const std::string data = "{sequence_length: 16, documents: line}";
  const std::string section =
      "{num_train_epochs: 1, batch_tokens: 16, learning_rate: 0.01, logging_steps: 1, save_steps: 10, "
      "save_total_limit: 30, seed: 5";
  const TrainRun calm = kit.run("", data, section + "}", "calm");
  train(calm);
  int64_t spike = 0;
  for (const auto& [step, loss] : kit::losses_of(calm.out))
    if (step > 40 && loss > 3) spike = spike ? spike : step;
  ASSERT_GT(spike, 40) << "choose another seed";

  const TrainRun run = kit.run("", data, section + ", spike_deviations: 8, spike_window: 20}", "run");
  const TrainResult result = train(run);
  const int64_t target = (spike - 1) / 10 * 10;
  // The checkpoint it went back to has the same weights as without the detector, and knows what to leave out.
  const auto checkpoint = [](const TrainRun& r, int64_t step) { return checkpoint_path(r.out, step); };
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_TRUE(read_file(checkpoint(run, target) / file) == read_file(checkpoint(calm, target) / file)) << file;
  const Json at_target = parse_json(read_file(checkpoint(run, target) / "state.json"), "state"),
             at_end = parse_json(read_file(checkpoint(run, result.steps) / "state.json"), "state");
  EXPECT_EQ(at_target["rollbacks"], 1);
  EXPECT_EQ(at_end["rollbacks"], 1);
  EXPECT_EQ(at_end["skipped"], Json({spike - 1}));
  for (const auto& [step, loss] : kit::losses_of(run.out)) EXPECT_LT(loss, step > 40 ? 3.0 : 10.0) << step;
  // Steps before the spike are the same; metrics hold each step once, and the spike.
  EXPECT_EQ(kit::losses_of(run.out).at(spike - 1), kit::losses_of(calm.out).at(spike - 1));
  const std::vector<Json> lines = kit::json_lines(run.out / "metrics.jsonl");
  EXPECT_EQ(lines.size(), size_t(result.steps) + 1);
  std::vector<Json> spikes;
  for (const Json& line : lines)
    if (line.contains("spike")) spikes.push_back(line);
  ASSERT_EQ(spikes.size(), 1u);
  EXPECT_EQ(spikes[0]["step"], target);
  const Json found = spikes[0]["spike"];
  EXPECT_EQ(found["step"], spike);
  EXPECT_EQ(found["loss"], kit::losses_of(calm.out).at(spike));
  EXPECT_GT(found["loss"].get<double>(), found["limit"].get<double>());
  EXPECT_EQ(found["first_micro_batch"], spike - 1);
  EXPECT_EQ(found["last_micro_batch"], spike - 1);
  // The end is as sound as the text without its garbage is easy, and the page shows what happened.
  EXPECT_LT(result.final_loss, 0.5);
  const std::string page = read_file(run.out / "report.html");
  EXPECT_NE(page.find(cat("loss spike at step ", spike, ": ")), std::string::npos);
  EXPECT_NE(page.find(cat("back to step ", target)), std::string::npos);
  EXPECT_EQ(read_file(calm.out / "report.html").find("loss spike"), std::string::npos);
}

TEST(Trainer, TheWatchdogStopsWithThree) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run(
      "", kPlainData,
      "{max_steps: 50, batch_tokens: 64, learning_rate: 0, loss_watchdog_threshold: 1, loss_watchdog_patience: 4}");
  const std::string error = kit::coded_error_of([&] { train(run); });
  EXPECT_EQ(error.substr(0, 66), "3 watchdog: the loss was above 1 for 4 steps, up to step 4 (now 5.") << error;
}

TEST(Trainer, DivergenceNamesLayerOperationStepAndBatch) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", kPlainData,
                               "{max_steps: 50, batch_tokens: 64, learning_rate: 1.0e+30, lr_scheduler_type: constant, "
                               "max_grad_norm: 0, save_steps: 1}");
  const std::string error = kit::coded_error_of([&] { train(run); });
  EXPECT_EQ(error.substr(0, 20), "3 diverged: at step ") << error;
  for (const char* word : {"micro-batches", "the first value that is not finite is in", " in final_norm",
                           "learning rate", "another --out"})
    EXPECT_NE(error.find(word), std::string::npos) << word << " in: " << error;
  const Json result = parse_json(read_file(run.out / "result.json"), "result");
  EXPECT_EQ(result["status"], "diverged");
  EXPECT_GE(result["steps"], 1);
}

// A recipe whose very last step breaks the weights must not publish them.
TEST(Trainer, NoCheckpointHoldsWeightsThatAreNotFinite) {
  const kit::TrainKit kit;
  const TrainRun run =
      kit.run("", kPlainData, "{max_steps: 1, batch_tokens: 64, learning_rate: 1.0e+39, lr_scheduler_type: constant}");
  const std::string error = kit::coded_error_of([&] { train(run); });
  EXPECT_EQ(error.substr(0, 25), "3 diverged: after step 1:") << error;
  EXPECT_FALSE(std::filesystem::exists(run.out / "model.safetensors"));
}

TEST(Trainer, ASampleThatCannotBeMadeDoesNotCostTheRun) {
  const kit::TrainKit kit;
  TrainRun run = kit.run(
      "{hidden_size: 16, num_hidden_layers: 1, position: learned, mixer: {type: attention, num_attention_heads: 2}}",
      kPlainData, "{max_steps: 4, batch_tokens: 64, sample_steps: 1}");
  run.samples = true;
  run.recipe.generate.prompt = "longer than the sixteen positions of the model";
  EXPECT_EQ(train(run).steps, 4);
  EXPECT_EQ(kit::json_lines(run.out / "samples.jsonl").size(), 0u);
  EXPECT_TRUE(std::filesystem::exists(run.out / "model.safetensors"));
}

TEST(Trainer, ImpossibleSizesAreRefusedBeforeTraining) {
  const kit::TrainKit kit;
  const auto error = [&](const std::string& model, const std::string& data, const std::string& section) {
    return kit::coded_error_of([&] { train(kit.run(model, data, section)); });
  };
  EXPECT_NE(error("{vocab_size: 100, hidden_size: 8, mixer: {type: attention, num_attention_heads: 2}}", kPlainData,
                  "{max_steps: 1, batch_tokens: 64}")
                .find("2 model: vocab_size 100 is below the tokenizer's 257"),
            std::string::npos);
  EXPECT_NE(error("{hidden_size: 8, max_position_embeddings: 4, mixer: {type: attention, num_attention_heads: 2}}",
                  kPlainData, "{max_steps: 1, batch_tokens: 64}")
                .find("2 model: max_position_embeddings 4 is below data.sequence_length 16"),
            std::string::npos);
  EXPECT_EQ(error("{hidden_size: 10, mixer: {type: attention, num_attention_heads: 3}}", kPlainData,
                  "{max_steps: 1, batch_tokens: 64}")
                .substr(0, 2),
            "2 ");
  EXPECT_EQ(error("{hidden_size: 10, mixer: {type: attention, num_attention_heads: 2}}", kPlainData,
                  "{max_steps: 1, batch_tokens: 64}")
                .substr(0, 2),
            "2 ");  // rotary: odd heads
}

}  // namespace
}  // namespace lithe
