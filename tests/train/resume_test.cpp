// Checkpoints that are damaged, recipes and texts that changed, disks that are full: a clear error and nothing lost.
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "lithe/base/stop.h"
#include "lithe/train/checkpoint.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

const std::string kResumedTrain =
    "{max_steps: 12, batch_tokens: 64, learning_rate: 0.01, logging_steps: 2, eval_steps: 6, save_steps: 4, "
    "save_total_limit: 3}";

TrainRun resumed(TrainRun run) {
  run.resume = true;
  return run;
}

// Flips a bit in the middle, cuts to half, empties, removes.
void damage(const Path& file, int how) {
  std::string bytes = read_file(file);
  if (how == 0) bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 1);
  if (how == 1) bytes.resize(bytes.size() / 2);
  if (how == 2) bytes.clear();
  fs::remove(file);  // the weights are a link to the same bytes
  if (how < 3) std::ofstream(file, std::ios::binary) << bytes;
}

TEST(Resume, ADamagedCheckpointIsNamedAndTheOneBeforeItWorks) {
  const kit::TrainKit kit;
  const TrainRun whole = kit.run("", kit::kHeldOutData, kResumedTrain, "whole");
  train(whole);
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"})
    for (int how = 0; how < 4; ++how) {
      SCOPED_TRACE(cat(file, " ", how));
      const Path out = kit.scratch.path() / cat(file, how);
      fs::copy(whole.out, out, fs::copy_options::recursive);
      TrainRun run = resumed(whole);
      run.out = out;
      const Path last = checkpoint_path(out, 12);
      damage(last / file, how);
      const std::string error = kit::coded_error_of([&] { train(run); });
      EXPECT_EQ(error.substr(0, 10), "1 resume: ") << error;
      EXPECT_NE(error.find(cat("'", last.string(), "'")), std::string::npos) << error;
      EXPECT_NE(error.find("remove that directory to resume from the checkpoint before it"), std::string::npos)
          << error;
      fs::remove_all(last);
      if (how != 1) continue;
      train(run);
      EXPECT_TRUE(read_file(out / "model.safetensors") == read_file(whole.out / "model.safetensors"));
      EXPECT_TRUE(read_file(out / "metrics.jsonl") == read_file(whole.out / "metrics.jsonl"));
    }
}

// No positions; a sample's token, which is a row alone, asks to stop where that is wanted.
class Stopper final : public Position {
 public:
  Stopper(const Scope&, const NoOptions&, const Args&) {}
  Var add_to(const Var& x, const Sequences&) const override {
    if (wanted && x.rows() == 1) set_stop_signal(SIGTERM);
    return x;
  }
  static inline bool wanted = false;
};

TEST(Resume, StoppedBySignalsItEndsTheSame) {
  Registry::instance().add<Position, Stopper, NoOptions>("stopper", {});
  const kit::TrainKit kit;
  const std::string model =
      "{hidden_size: 16, num_hidden_layers: 1, position: stopper, mixer: {type: attention, num_attention_heads: 2}, "
      "ffn: {type: swiglu, intermediate_size: 24}}";
  const TrainRun whole = kit.run(model, kit::kHeldOutData, kResumedTrain, "whole");
  train(whole);
  TrainRun run = kit.run(model, kit::kHeldOutData, kResumedTrain, "stopped");
  run.samples = true;
  run.recipe.train.sample_steps = 1;
  run.recipe.generate.max_new_tokens = 4;
  int starts = 0;
  TrainResult result;
  do {
    Stopper::wanted = starts % 2 == 0;  // every second run goes on
    run.resume = starts > 0;
    result = train(run);
    set_stop_signal(0);
    EXPECT_EQ(result.status, result.signal ? RunStatus::stopped : RunStatus::finished);
    if (starts % 2 == 1 && result.status != RunStatus::finished) ADD_FAILURE() << "stopped unasked";
  } while (++starts < 30 && result.status != RunStatus::finished);
  Stopper::wanted = false;
  EXPECT_EQ(result.status, RunStatus::finished);
  EXPECT_TRUE(read_file(run.out / "model.safetensors") == read_file(whole.out / "model.safetensors"));
  EXPECT_TRUE(read_file(run.out / "metrics.jsonl") == read_file(whole.out / "metrics.jsonl"));
  EXPECT_EQ(kit::json_lines(run.out / "samples.jsonl").size(), 13u);  // steps 0 to 12, each once
}

std::map<std::string, std::string> files_of(const Path& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) out[entry.path()] = read_file(entry.path());
  return out;
}

TEST(Resume, AveragedWeightsComeAgain) {
  const kit::TrainKit kit;
  const std::string how = kResumedTrain.substr(0, kResumedTrain.size() - 1) + ", ema_decay: 0.9}";
  const TrainRun whole = kit.run("", kit::kHeldOutData, how, "whole");
  train(whole);
  EXPECT_TRUE(fs::exists(whole.out / "averaged" / "model.safetensors"));
  EXPECT_FALSE(read_file(whole.out / "averaged" / "model.safetensors") == read_file(whole.out / "model.safetensors"));
  TrainRun run = resumed(kit.run("", kit::kHeldOutData, how, "cut"));
  fs::copy(whole.out, run.out, fs::copy_options::recursive);
  for (int64_t step : {12, 8}) fs::remove_all(checkpoint_path(run.out, step));
  for (const char* file : {"averaged", "best"}) fs::remove_all(run.out / file);
  train(run);
  for (const char* file : {"model.safetensors", "metrics.jsonl", "averaged/model.safetensors"})
    EXPECT_TRUE(read_file(run.out / file) == read_file(whole.out / file)) << file;
  EXPECT_EQ(kit::coded_error_of([&] {
              kit.run("", kit::kHeldOutData, "{max_steps: 2, ema_decay: 0.9, precision: bf16}", "x");
              train(kit.run("", kit::kHeldOutData, "{max_steps: 2, ema_decay: 0.9, precision: bf16}", "x"));
            }).substr(0, 7),
            "2 train");
}

TEST(Resume, AFinishedRunStaysAsItIs) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", kit::kHeldOutData, kResumedTrain);
  const TrainResult first = train(run);
  const auto files = files_of(run.out);
  const TrainResult again = train(resumed(run));
  EXPECT_EQ(again.status, RunStatus::finished);
  EXPECT_EQ(again.steps, 12);
  EXPECT_EQ(again.eval_loss, first.eval_loss);
  EXPECT_EQ(again.measured.peak, first.measured.peak);
  EXPECT_EQ(again.measured.by_class, first.measured.by_class);
  EXPECT_TRUE(files_of(run.out) == files);
  // The mean of its checkpoints may be asked for later.
  std::string averaged = kResumedTrain;
  averaged.insert(1, "average_checkpoints: 2, ");
  EXPECT_EQ(train(resumed(kit.run("", kit::kHeldOutData, averaged))).status, RunStatus::finished);
  EXPECT_TRUE(fs::exists(run.out / "averaged" / "model.safetensors"));
}

// The process that resumes sees a part of the run only.
TEST(Resume, TheLargestPeakOfAllPartsIsTheRuns) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", kit::kHeldOutData, kResumedTrain);
  const int64_t peak = train(run).measured.peak;
  Json memory = parse_json(read_file(run.out / "memory.json"), "memory.json");
  memory["measured"]["peak"] = peak + 1000;
  write_file(run.out / "memory.json", memory.dump());
  fs::remove_all(checkpoint_path(run.out, 12));
  EXPECT_EQ(train(resumed(run)).measured.peak, peak + 1000);
  memory = parse_json(read_file(run.out / "memory.json"), "memory.json");
  EXPECT_EQ(memory["measured"]["peak"], peak + 1000);
  // What cannot be read counts for nothing.
  for (const char* text : {"{", "[]", "{\"measured\": {\"peak\": \"much\"}}", "{\"measured\": 3}"}) {
    write_file(run.out / "memory.json", text);
    fs::remove_all(checkpoint_path(run.out, 12));
    EXPECT_EQ(train(resumed(run)).measured.peak, peak) << text;
  }
}

TEST(Resume, KilledBeforeItsWeightsWerePublished) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", kit::kHeldOutData, kResumedTrain);
  train(run);
  const std::string weights = read_file(run.out / "model.safetensors");
  fs::remove(run.out / "model.safetensors");
  write_file(run.out / "result.json", "{\"status\": \"running\"}");
  EXPECT_EQ(train(resumed(run)).status, RunStatus::finished);
  EXPECT_TRUE(read_file(run.out / "model.safetensors") == weights);
}

TEST(Resume, WeightsPublishedTwiceLeaveNoLink) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", kit::kHeldOutData, kResumedTrain, "run");
  train(run);
  publish_weights(run.out, checkpoint_path(run.out, 12));
  for (const auto& entry : fs::directory_iterator(run.out))
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
  EXPECT_TRUE(fs::exists(run.out / "model.safetensors"));
}

TEST(Resume, NothingToResumeIsRefused) {
  const kit::TrainKit kit;
  TrainRun run = resumed(kit.run("", kit::kHeldOutData, kResumedTrain));
  const std::string refusal =
      cat("2 resume: '", run.out.string(),
          "' holds no run to resume; leave --resume out to begin one, or give --resume auto for either");
  EXPECT_EQ(kit::coded_error_of([&] { train(run); }), refusal);
  EXPECT_FALSE(fs::exists(run.out));
  make_directory(run.out);
  EXPECT_EQ(kit::coded_error_of([&] { train(run); }), refusal);
  EXPECT_TRUE(fs::is_empty(run.out));
  // Killed while it read its data: it has begun.
  write_file(run.out / ".lock", "");
  EXPECT_EQ(train(run).status, RunStatus::finished);
}

TEST(Refused, LeavesNothingBehind) {
  const kit::TrainKit kit;
  const Path outer = kit.scratch.path() / "outer";
  const auto refused = [&](TrainRun run, const std::string& start) {
    const std::string error = kit::coded_error_of([&] { train(run); });
    EXPECT_EQ(error.substr(0, start.size()), start) << error;
    EXPECT_FALSE(fs::exists(outer)) << error;
  };
  const TrainRun run = kit.run("", kit::kHeldOutData, kResumedTrain, "outer/run");
  TrainRun small = run;
  small.memory_budget = 1000;
  refused(small, "4 memory: the plan needs");
  small.fit_memory = true;
  refused(small, "4 memory: the budget");
  TrainRun no_text = run;
  no_text.recipe.data.files = {kit.scratch / "absent.txt"};
  refused(no_text, "2 files: nothing matches");
  // Weights that do not fit are seen after the plan.
  TrainRun wide = kit.run(
      "{vocab_size: 257, hidden_size: 32, num_hidden_layers: 1, mixer: {type: attention, num_attention_heads: 2}}",
      kit::kHeldOutData, kResumedTrain, "wide");
  train(wide);
  TrainRun tuned = run;
  tuned.recipe.from_pretrained = wide.out;
  refused(tuned, "");
  // A directory that was there stays, without a lock.
  make_directory(outer);
  small.out = outer;
  EXPECT_NE(kit::coded_error_of([&] { train(small); }), "no error");
  EXPECT_TRUE(fs::is_empty(outer));
}

TEST(Resume, RefusesAnotherRecipeOrAnotherText) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", kit::kHeldOutData, kResumedTrain);
  train(run);
  EXPECT_EQ(kit::coded_error_of([&] { train(run); }),
            cat("2 train: '", run.out.string(),
                "' already holds a run; give --resume to continue it, --overwrite to begin it "
                "anew, or another --out"));

  std::string changed = kResumedTrain;
  changed.replace(changed.find("0.01"), 4, "0.02");
  const std::string error = kit::coded_error_of([&] { train(resumed(kit.run("", kit::kHeldOutData, changed))); });
  EXPECT_NE(error.find("2 resume: the recipe differs from the run's: train.learning_rate was 0.01 and is now 0.02"),
            std::string::npos)
      << error;
  // An option that only the old part had is a difference too.
  const std::string position =
      "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 1, position: none, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}}";
  EXPECT_NE(kit::coded_error_of([&] {
              train(resumed(kit.run(position, kit::kHeldOutData, kResumedTrain)));
            }).find("model.position.type was rotary and is now none"),
            std::string::npos);
  // More time and other save steps are no difference.
  std::string free = kResumedTrain;
  free.replace(free.find("save_steps: 4"), 13, "save_steps: 3");
  EXPECT_EQ(train(resumed(kit.run("", kit::kHeldOutData, free))).status, RunStatus::finished);

  // A line more, which only the held-out part shows.
  const std::string result = read_file(run.out / "result.json");
  std::ofstream(kit.scratch.path() / "text.txt", std::ios::app) << "one more line\n";
  const std::string other_text = kit::coded_error_of([&] { train(resumed(run)); });
  EXPECT_NE(other_text.find("2 resume: the data or the run's tokenizer are not those this run began with"),
            std::string::npos)
      << other_text;
  EXPECT_EQ(read_file(run.out / "result.json"), result);  // the run is as it was
}

// Each epoch cuts the texts anew. The tokenizers of the resumed run come from its directory.
TEST(Resume, DrawnSegmentationsComeAgain) {
  const kit::TrainKit kit;
  std::string sources, targets;
  for (int i = 0; i < 60; ++i) {
    sources += cat("the quick brown fox jumps over lazy dog number ", i, "\n");
    targets += cat("number ", i * 7 % 60, " is the lazy fox\n");
  }
  const auto run_with = [&](double dropout, const std::string& out) {
    TrainRun run = kit.run(
        "{architecture: encoder_decoder, hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, "
        "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 24}}",
        "{tokenizer: {type: bpe, vocab_size: 300}, sequence_length: 64}",
        "{objective: seq2seq, max_steps: 12, batch_tokens: 320, learning_rate: 0.01, logging_steps: 1, save_steps: 5, "
        "save_total_limit: 3}",
        out);
    TranslationConfig& translation = run.recipe.translation;
    translation.train.source = {kit.scratch.add("source.txt", sources)};
    translation.train.target = {kit.scratch.add("target.txt", targets)};
    translation.max_length = 64;
    translation.source_segmentation.dropout = translation.target_segmentation.dropout = dropout;
    return run;
  };
  const TrainRun whole = run_with(.3, "whole");
  ASSERT_EQ(train(whole).status, RunStatus::finished);
  const Json memory = parse_json(read_file(whole.out / "memory.json"), "memory.json");
  EXPECT_LE(memory["measured"]["peak"].get<int64_t>(), memory["planned"]["peak"].get<int64_t>());

  TrainRun cut = resumed(whole);
  cut.out = kit.scratch.path() / "cut";
  fs::copy(whole.out, cut.out, fs::copy_options::recursive);
  fs::remove_all(checkpoint_path(cut.out, 12));
  fs::remove_all(checkpoint_path(cut.out, 10));
  fs::remove(cut.out / "model.safetensors");
  ASSERT_EQ(train(cut).status, RunStatus::finished);
  EXPECT_TRUE(read_file(cut.out / "model.safetensors") == read_file(whole.out / "model.safetensors"));
  EXPECT_TRUE(read_file(cut.out / "metrics.jsonl") == read_file(whole.out / "metrics.jsonl"));

  const TrainRun plain = run_with(0, "plain");
  train(plain);
  EXPECT_FALSE(read_file(plain.out / "model.safetensors") == read_file(whole.out / "model.safetensors"));
  const std::string error = kit::coded_error_of([&] { train(resumed(run_with(.2, "whole"))); });
  EXPECT_NE(error.find("translation.source_segmentation.dropout was 0.3 and is now 0.2"), std::string::npos) << error;
}

// oracle: syn.multi_encoder
TEST(Resume, TranslatorsOfSeveralSources) {
  const kit::TrainKit kit;
  std::string sources, targets, trees;
  for (int i = 0; i < 60; ++i) {
    sources += cat("the quick brown fox jumps over lazy dog number ", i, "\n");
    targets += cat("number ", i * 7 % 60, " is the lazy fox\n");
    trees += cat("(the fox (jumps over) dog ", i % 10, ")\n");
  }
  const auto run_with = [&](const std::string& combine, const std::string& out) {
    TrainRun run = kit.run(
        cat("{architecture: encoder_decoder, hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, "
            "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 24}, encoders: {context: {}, trees: "
            "{num_hidden_layers: 2}}, combine: ",
            combine, "}"),
        "{tokenizer: {type: bpe, vocab_size: 300}, sequence_length: 64}",
        "{objective: seq2seq, max_steps: 12, batch_tokens: 700, learning_rate: 0.01, logging_steps: 1, save_steps: 5, "
        "save_total_limit: 3, eval_steps: 6}",
        out);
    TranslationConfig& translation = run.recipe.translation;
    ParallelFiles files;
    files.source = {kit.scratch.add("source.txt", sources)};
    files.target = {kit.scratch.add("target.txt", targets)};
    files.sources.set("trees", Node::scalar(kit.scratch.add("trees.txt", trees)));
    translation.train = files;
    translation.sources = parse_yaml("{context: {from: previous}, trees: {from: file}}", "test");
    return run;
  };
  const TrainRun whole =
      run_with("{type: concat_len, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: relu}}", "whole");
  ASSERT_EQ(train(whole).status, RunStatus::finished);
  const Json memory = parse_json(read_file(whole.out / "memory.json"), "memory.json");
  EXPECT_LE(memory["measured"]["peak"].get<int64_t>(), memory["planned"]["peak"].get<int64_t>());
  EXPECT_GE(memory["measured"]["peak"].get<double>(), .8 * memory["planned"]["peak"].get<double>());

  TrainRun cut = resumed(whole);
  cut.out = kit.scratch.path() / "cut";
  fs::copy(whole.out, cut.out, fs::copy_options::recursive);
  fs::remove_all(checkpoint_path(cut.out, 12));
  fs::remove_all(checkpoint_path(cut.out, 10));
  fs::remove(cut.out / "model.safetensors");
  ASSERT_EQ(train(cut).status, RunStatus::finished);
  EXPECT_TRUE(read_file(cut.out / "model.safetensors") == read_file(whole.out / "model.safetensors"));

  // Another text of an encoder is another text.
  trees[1] = 'T';
  run_with("sum", "other");
  const std::string changed = kit::coded_error_of([&] { train(resumed(whole)); });
  EXPECT_NE(changed.find("the data or the run's tokenizer are not those"), std::string::npos) << changed;
  TrainRun without = run_with("sum", "without");
  without.recipe.translation.sources = parse_yaml("{context: {from: previous}}", "test");
  EXPECT_NE(kit::coded_error_of([&] { train(without); }).find("trees"), std::string::npos);
}

TEST(Resume, TwoRunsInOneDirectoryAreRefused) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", kit::kHeldOutData, kResumedTrain);
  make_directory(run.out);
  const DirectoryLock other(run.out);
  EXPECT_NE(kit::coded_error_of([&] { train(run); }).find("is in use by another run"), std::string::npos);
}

TEST(Resume, OutIsAFileOrAComparison) {
  const kit::TrainKit kit;
  TrainRun run = kit.run("", kit::kHeldOutData, kResumedTrain);
  run.out = kit.scratch.add("file", "x");
  EXPECT_EQ(kit::coded_error_of([&] { train(run); }),
            cat("2 train: '", run.out.string(), "' is a file; give --out a directory"));
  kit.scratch.add("experiment.yaml", "baseline: a\n");
  run.out = Path(kit.scratch.add("file", "x")).parent_path();
  EXPECT_EQ(kit::coded_error_of([&] { train(run); }),
            cat("2 train: '", run.out.string(), "' holds a comparison; give --out another directory"));
}

TEST(Checkpoint, KeepsTheOneThatASpikeGoesBackTo) {
  const kit::Scratch scratch;
  ModelConfig config =
      read_model_config(parse_yaml("{vocab_size: 5, hidden_size: 4, num_hidden_layers: 1, max_position_embeddings: 8, "
                                   "mixer: {type: attention, num_attention_heads: 1}}",
                                   "test"));
  Model model(config, {.trainable = true});
  const AdamW optimizer(model.parameters(), {});
  TrainState state;
  for (int64_t step : {2, 4, 5, 6, 7}) {
    state.step = step;
    state.rollback_step = 4;
    save_checkpoint(scratch.path(), model, optimizer, state, 1);
  }
  EXPECT_TRUE(fs::exists(checkpoint_path(scratch.path(), 4)));
  EXPECT_FALSE(fs::exists(checkpoint_path(scratch.path(), 6)));
  EXPECT_EQ(latest_checkpoint(scratch.path()), checkpoint_path(scratch.path(), 7));
  drop_checkpoints_after(scratch.path(), 4);
  EXPECT_EQ(latest_checkpoint(scratch.path()), checkpoint_path(scratch.path(), 4));
}

TEST(Checkpoint, BringsEveryFieldBack) {
  const kit::Scratch scratch;
  ModelConfig config =
      read_model_config(parse_yaml("{vocab_size: 5, hidden_size: 4, num_hidden_layers: 1, max_position_embeddings: 8, "
                                   "mixer: {type: attention, num_attention_heads: 1}}",
                                   "test"));
  Model model(config, {.trainable = true});
  AdamW optimizer(model.parameters(), {});
  TrainState s{.step = 3,
               .tokens = 4,
               .micro_batches = 5,
               .skipped = {7, 9},
               .rollbacks = 2,
               .rollback_step = 1,
               .interval_loss = 0.1,
               .interval_labels = 11,
               .interval_steps = 12,
               .interval_norm = 1e-300,
               .recent_losses = {0.3, 1.0 / 3},
               .steps_above_threshold = 13,
               .best_loss = 2.0 / 3,
               .best_step = 14,
               .last_eval_loss = 5,
               .evaluated_step = 15,
               .sampled_step = 16,
               .metrics_bytes = 17,
               .speed_bytes = 18,
               .samples_bytes = 19,
               .elapsed = 0.7,
               .threads = 20,
               .data_fingerprint = ~uint64_t(0)};
  const Path saved = save_checkpoint(scratch.path(), model, optimizer, s, 2);
  const std::string weights = read_file(saved / "model.safetensors"), state = read_file(saved / "state.json");
  for (Parameter& p : model.parameters().all()) fill_zero(p.master.value());
  const TrainState back = load_checkpoint(saved, model, optimizer);
  EXPECT_EQ(back.skipped, s.skipped);
  EXPECT_EQ(back.recent_losses, s.recent_losses);
  EXPECT_EQ(back.data_fingerprint, s.data_fingerprint);
  save_checkpoint(scratch.path(), model, optimizer, back, 2);  // over itself
  EXPECT_TRUE(read_file(saved / "model.safetensors") == weights);
  EXPECT_EQ(read_file(saved / "state.json"), state);
}

// With a learning rate that does not know the end, what is extended is what would have been.
TEST(Resume, AnExtendedRunIsTheLongerRun) {
  const kit::TrainKit kit;
  const auto of = [&](int steps, const char* out) {
    return kit.run("", kit::kHeldOutData,
                   cat("{max_steps: ", steps,
                       ", batch_tokens: 64, learning_rate: 0.01, lr_scheduler_type: constant, "
                       "logging_steps: 2, eval_steps: 6, save_steps: 4, save_total_limit: 3}"),
                   out);
  };
  const TrainRun whole = of(24, "whole");
  train(whole);
  train(of(12, "extended"));
  TrainRun longer = of(24, "extended");
  longer.resume = true;
  EXPECT_NE(kit::error_of([&] { train(longer); }).find("train.max_steps was 12 and is now 24"), std::string::npos);
  longer.extend = true;
  EXPECT_EQ(train(longer).steps, 24);
  EXPECT_TRUE(read_file(longer.out / "model.safetensors") == read_file(whole.out / "model.safetensors"));
  EXPECT_TRUE(read_file(longer.out / "metrics.jsonl") == read_file(whole.out / "metrics.jsonl"));
}

TEST(Resume, ADamagedLogIsSetAside) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", kit::kHeldOutData, kResumedTrain);
  train(run);
  fs::remove_all(checkpoint_path(run.out, 12));
  fs::remove_all(checkpoint_path(run.out, 8));
  const Path log = run.out / "metrics.jsonl";
  std::string text = read_file(log);
  text[text.find("loss") + 8] ^= 1;
  write_file(log, text);
  train(resumed(run));
  EXPECT_EQ(read_file(run.out / "metrics.jsonl.damaged").substr(0, 20), text.substr(0, 20));
  EXPECT_EQ(kit::losses_of(run.out).begin()->first, 6);  // begins again after step 4
  // It can be stopped and resumed as before.
  fs::remove_all(checkpoint_path(run.out, 12));
  const std::string weights = read_file(run.out / "model.safetensors"), lines = read_file(log);
  train(resumed(run));
  EXPECT_TRUE(read_file(run.out / "model.safetensors") == weights);
  EXPECT_EQ(read_file(log), lines);
}

// Writes fail as on a full disk: the program ends with 1 and one line, and the checkpoints before stay.
TEST(FullDisk, CostsOnlyWhatWasNotSaved) {
  if (!kit::have_program()) GTEST_SKIP() << "LITHE_BINARY is not set";
  const kit::Scratch scratch;
  const std::string text = scratch.add("text.txt", kit::small_text(4000)), out = scratch / "run";
  const std::string recipe = scratch.add(
      "recipe.yaml", cat("model: {hidden_size: 32, num_hidden_layers: 1, mixer: {type: attention, num_attention_heads: "
                         "2}}\ndata: {files: [",
                         text, "], sequence_length: 16, cache_directory: ", scratch / "cache",
                         "}\ntrain: {max_steps: 60, batch_tokens: 64, save_steps: 20, logging_steps: 1}\n"));
  std::vector<std::string> words = {"train", recipe, "--out", out, "--threads", "1"};
  // The limit lets the weights through, some 80 kB, and not the optimiser's state, twice as large.
  const kit::Finished first = kit::run_program(words, {.file_limit = 100000});
  EXPECT_EQ(first.code, 1) << first.err;
  EXPECT_NE(first.err.find("lithe: checkpoint: step 20 could not be saved"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("File too large"), std::string::npos) << first.err;
  EXPECT_TRUE(fs::is_empty(Path(out) / "training_state")) << "a half-written checkpoint was left";
  EXPECT_FALSE(fs::exists(Path(out) / "model.safetensors"));
  EXPECT_EQ(parse_json(read_file(Path(out) / "result.json"), "result.json")["status"], "failed");

  words.push_back("--resume");
  {
    kit::Process second(words);
    while (second.running() && !fs::exists(checkpoint_path(out, 20))) ::usleep(500);
    second.send(SIGKILL);
    second.wait();
  }
  const std::string kept = latest_checkpoint(out), weights = read_file(kept + "/model.safetensors");
  if (kept.ends_with("step-00000060")) GTEST_SKIP() << "it was finished before it could be killed";
  const kit::Finished third = kit::run_program(words, {.file_limit = 100000});
  EXPECT_EQ(third.code, 1) << third.err;
  EXPECT_EQ(latest_checkpoint(out), kept);
  EXPECT_TRUE(read_file(kept + "/model.safetensors") == weights);
  const kit::Finished last = kit::run_program(words);
  EXPECT_EQ(last.code, 0) << last.err;
}

}  // namespace
}  // namespace lithe
