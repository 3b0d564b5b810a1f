// Pre-training, tasks and sentence rows as a person or a script meets them, on planted data: a sentence is good when it
// has a good word.
#include <gtest/gtest.h>

#include <sstream>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/base/random.h"
#include "lithe/eval/task_metrics.h"
#include "lithe/model/safetensors.h"
#include "tests/support/program_test.h"
#include "tests/support/text.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::Finished;
using kit::run_program;

const char* const kLabels[] = {"bad", "good"};
const char* const kTelling[2][3] = {{"poor", "dull", "nasty"}, {"fine", "lovely", "bright"}};

// Sentence `i`: five common words and one, in any place, that tells its label, i % 2.
std::string sentence(uint64_t i) {
  static const char* const common[] = {"the", "cat", "film", "was", "seen", "here"};
  const auto draw = [&](uint64_t at, uint64_t below) {
    return random_below({.seed = i, .purpose = purpose_of("planted")}, at, below);
  };
  const uint64_t place = draw(0, 6);
  std::string text;
  for (uint64_t w = 0; w < 6; ++w)
    text += cat(w ? " " : "", w == place ? kTelling[i % 2][draw(1, 3)] : common[draw(2 + w, 6)]);
  return text;
}

std::string sentences(uint64_t from, uint64_t to, bool labelled) {
  std::string text;
  for (uint64_t i = from; i < to; ++i) text += cat(labelled ? cat(kLabels[i % 2], " ") : "", sentence(i), "\n");
  return text;
}

class Tasks : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    scratch_->add("corpus.txt", sentences(1000, 1400, false));
    scratch_->add("train.txt", sentences(0, 60, true));
    scratch_->add("test.txt", sentences(60, 80, true));
    scratch_->add("lines.txt", sentences(100, 110, false));
    const std::string pretrain = scratch_->add(
        "pretrain.yaml",
        cat("model: {architecture: encoder, hidden_size: 16, num_hidden_layers: 1, position: learned, mixer: {type: "
            "attention, num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 32}, head: mlm}\n",
            "data: {files: [\"", *scratch_ / "corpus.txt",
            "\"], documents: line, sequence_length: 16, tokenizer: {type: wordpiece, vocab_size: 100}, "
            "cache_directory: \"",
            *scratch_ / "cache",
            "\"}\ntrain: {objective: mlm, max_steps: 10, batch_tokens: 128, learning_rate: 0.01}\n"));
    const Finished f = run_program({"train", pretrain, "--out", run("encoder"), "--json"});
    ASSERT_EQ(f.code, 0) << f.err;
    scratch_->add("planted.yaml", task());
    const Finished tuned = run_program(
        {"train", recipe(), "--set", cat("from_pretrained=", run("encoder")), "--out", run("tuned"), "--json"});
    ASSERT_EQ(tuned.code, 0) << tuned.err;
  }
  static void TearDownTestSuite() { delete scratch_; }
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(fs::exists(run("tuned") + "/model.safetensors"));
  }

  static std::string run(const std::string& name) { return *scratch_ / name; }
  static std::string recipe() { return *scratch_ / "planted.yaml"; }
  static std::string task(const std::string& keys = "") {
    return cat("task: {format: label_text, train: [\"", *scratch_ / "train.txt", "\"], test: [\"",
               *scratch_ / "test.txt", "\"]", keys,
               "}\ndata: {sequence_length: 16}\ntrain: {objective: task, num_train_epochs: 10, batch_tokens: 128, "
               "learning_rate: 0.02}\n");
  }
  static void expect_error(const std::vector<std::string>& arguments, int code, const std::vector<std::string>& words,
                           const std::string& input = "") {
    const Finished f = run_program(arguments, {.stdin_text = input});
    EXPECT_EQ(f.code, code) << f.err;
    EXPECT_EQ(f.out, "");
    for (const std::string& word : words)
      EXPECT_NE(f.err.find(word), std::string::npos) << "no '" << word << "' in: " << f.err;
    EXPECT_EQ(f.err.find("internal"), std::string::npos) << f.err;
  }
  static std::vector<std::string> training(const std::string& file) {
    return {"train", file, "--set", cat("from_pretrained=", run("encoder")), "--out", run("refused")};
  }

  static inline kit::Scratch* scratch_ = nullptr;
};

TEST_F(Tasks, EvalPrintsTheAccuracyOfThePlantedTask) {
  const Finished shown = run_program({"eval", run("tuned")});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("(20 examples, test)"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("accuracy          1.0000"), std::string::npos) << shown.out;
  const Json json = parse_json(run_program({"eval", run("tuned"), "--json"}).out, "eval --json");
  EXPECT_EQ(json["part"], "test");
  EXPECT_EQ(json["accuracy"], 1.0);
  const Json other = parse_json(run_program({"eval", run("tuned"), *scratch_ / "train.txt", "--json"}).out, "eval");
  EXPECT_EQ(other["part"], "files");
  EXPECT_EQ(other["examples"], 60);
  const Finished masked = run_program({"eval", run("encoder")});
  EXPECT_EQ(masked.code, 2) << masked.out;
  EXPECT_NE(masked.err.find("no held-out text"), std::string::npos) << masked.err;
}

TEST_F(Tasks, TrainSaysWhatTrivialMethodsReachAndKeepsEveryAnswer) {
  const Finished f =
      run_program({"train", recipe(), "--set", cat("from_pretrained=", run("encoder")), "--set",
                   "train.num_train_epochs=1", "--set", "train.learning_rate=1e-9", "--out", run("idle")});
  ASSERT_EQ(f.code, 0) << f.err;
  for (const char* text : {"test part, 20 examples", "majority 0.5000", "logistic regression 1.0000", "precision",
                           "truth \\ predicted", "predictions.tsv"})
    EXPECT_NE(f.out.find(text), std::string::npos) << text << " in " << f.out;
  EXPECT_NE(f.err.find("the model is worse than logistic regression"), std::string::npos) << f.err;
  const std::vector<std::string> lines = kit::lines_of(read_file(run("idle") + "/predictions.tsv"));
  ASSERT_EQ(lines.size(), 21u);
  EXPECT_EQ(lines[0], "right\tlabel\tpredicted\tprobability\ttext");
  for (size_t i = 1; i < lines.size(); ++i) {
    EXPECT_TRUE(lines[i].starts_with("yes\t") || lines[i].starts_with("no\t")) << lines[i];
    EXPECT_NE(lines[i].find(cat("\t", kLabels[(59 + i) % 2], "\t")), std::string::npos) << lines[i];
    EXPECT_TRUE(lines[i].ends_with(sentence(59 + i))) << lines[i];
  }
  const std::string page = read_file(run("idle") + "/report.html");
  EXPECT_NE(page.find("Wrong answers"), std::string::npos);
  EXPECT_NE(page.find("logistic regression"), std::string::npos);
  const Json json = parse_json(read_file(run("tuned") + "/task_report.json"), "task_report.json");
  EXPECT_EQ(json["accuracy"], 1.0);
  EXPECT_EQ(json["warnings"].size(), 0u);
}

TEST_F(Tasks, AveragedWeightsAreThoseThatAreScored) {
  const std::vector<std::string> set = {"--set", "train.ema_decay=0.9", "--set", "train.num_train_epochs=4"};
  std::vector<std::string> words = {"train", recipe(),       "--set", cat("from_pretrained=", run("encoder")),
                                    "--out", run("averaged")};
  words.insert(words.end(), set.begin(), set.end());
  const Finished f = run_program(words);
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("averaged weights"), std::string::npos) << f.out;
  const Json report = parse_json(read_file(run("averaged") + "/task_report.json"), "task_report.json");
  EXPECT_EQ(report["weights"], "averaged");
  const auto loss = [&](const char* weights) {
    return parse_json(run_program({"eval", run("averaged"), "--weights", weights, "--json"}).out, "eval")["loss"]
        .get<double>();
  };
  const double last = parse_json(run_program({"eval", run("averaged"), "--json"}).out, "eval")["loss"].get<double>();
  EXPECT_EQ(report["loss"], loss("averaged"));
  EXPECT_NE(last, loss("averaged"));
  // Fine-tuning goes by the same rule.
  words = {"finetune", cat("e=", run("encoder")), "--tasks", recipe(), "--seeds", "1", "--out", run("tunings")};
  words.insert(words.end(), set.begin(), set.end());
  ASSERT_EQ(run_program(words).code, 0);
  const std::string tuned = run("tunings") + "/runs/e/planted/seed-1";
  const Json scores = parse_json(read_file(tuned + "/scores.json"), "scores.json");
  const Json again = parse_json(read_file(tuned + "/task_report.json"), "task_report.json");
  EXPECT_EQ(again["weights"], "averaged");
  const Json one = parse_json(run_program({"eval", tuned, "--weights", "averaged", "--json"}).out, "eval");
  EXPECT_EQ(again["loss"], one["loss"]);
  EXPECT_NE(dump(scores).find(dump(one["accuracy"])), std::string::npos) << dump(scores);
}

TEST_F(Tasks, FoldsAreTestPartsInTurnAndGoOn) {
  const std::string out = *scratch_ / "folds";
  const std::string file = scratch_->add(
      "folded.yaml",
      cat("model: {architecture: encoder, hidden_size: 8, num_hidden_layers: 0, position: none, norm: none, head: "
          "{pooling: mean, dense: false, ngrams: 2, ngram_buckets: 1000}}\ntask: {format: label_text, train: [\"",
          *scratch_ / "train.txt", "\"]}\ndata: {files: [\"", *scratch_ / "train.txt",
          "\"], sequence_length: 16, tokenizer: {type: wordpiece, vocab_size: 100}}\ntrain: {objective: task, "
          "num_train_epochs: 3, batch_tokens: 128, learning_rate: 0.02}\n"));
  const std::vector<std::string> words = {"finetune", "--tasks", file, "--folds", "3", "--out", out, "--json"};
  const Finished first = run_program(words);
  ASSERT_EQ(first.code, 0) << first.err;
  const Json json = parse_json(first.out, "finetune --json"), &task = json["models"][0]["tasks"][0];
  EXPECT_EQ(json["folds"], 3);
  EXPECT_EQ(json["models"][0]["name"], "recipe");
  EXPECT_EQ(task["scores"].size(), 3u);
  EXPECT_TRUE(task["over_baselines"]["logistic regression"]["half_width"].is_number());
  EXPECT_NE(read_file(out + "/finetuning.md").find("3 folds"), std::string::npos);
  EXPECT_NE(read_file(out + "/finetuning.html").find("Confusion"), std::string::npos);
  for (const char* fold : {"fold-1", "fold-3"})
    EXPECT_TRUE(fs::exists(cat(out, "/runs/recipe/folded/seed-1/", fold, "/predictions.tsv")));
  fs::remove_all(out + "/runs/recipe/folded/seed-1/fold-2");
  const Finished second = run_program(words);
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(parse_json(second.out, "finetune")["models"][0]["tasks"][0]["scores"], task["scores"]);
  EXPECT_EQ(second.err.find("fold 1 of"), std::string::npos) << second.err;
  EXPECT_NE(second.err.find("fold 2 of 3"), std::string::npos) << second.err;
  // Beside each other, one of them by itself before.
  const std::string beside = *scratch_ / "beside";
  std::vector<std::string> several = words;
  several[6] = beside;
  several.back() = "--only";
  several.insert(several.end(), {"recipe/folded/1/2", "--set", "train.weight_decay=0.01"});
  const Finished one = run_program(several);
  EXPECT_EQ(one.out, "recipe/folded/1/2 done\n") << one.err;
  several.erase(several.begin() + 7, several.begin() + 9);
  several.insert(several.end(), {"-j", "2", "--json"});
  const Finished rest = run_program(several);
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(rest.err.find("fold 2 of 3: begins"), std::string::npos) << rest.err;
  EXPECT_NE(rest.err.find("fold 3 of 3: done"), std::string::npos) << rest.err;
  several[6] = *scratch_ / "alone";
  several.erase(several.end() - 3, several.end() - 1);
  ASSERT_EQ(run_program(several).code, 0);
  for (const char* file : {"fold-1/model.safetensors", "fold-2/model.safetensors", "fold-3/metrics.jsonl"})
    EXPECT_TRUE(read_file(cat(beside, "/runs/recipe/folded/seed-1/", file)) ==
                read_file(cat(several[6], "/runs/recipe/folded/seed-1/", file)))
        << file;
  expect_error({"finetune", "--tasks", file, "--folds", "3", "--out", out, "--only", "recipe/folded/2/1"}, 2,
               {"is no run", "recipe/folded/1/1, recipe/folded/1/2"});
  expect_error({"finetune", "--tasks", recipe(), "--folds", "3", "--out", run("refused")}, 2, {"folds", "test"});
  expect_error({"finetune", "--tasks", file, "--folds", "1", "--out", run("refused")}, 2, {"folds are 2 or more"});
  expect_error({"finetune", "--tasks", file, "--scratch", "--out", run("refused")}, 2, {"--scratch"});
}

TEST_F(Tasks, PredictAnswersFromStdinAsFromAFile) {
  const std::string text = sentences(100, 110, false);
  const Finished file = run_program({"predict", run("tuned"), *scratch_ / "lines.txt", "--json"});
  ASSERT_EQ(file.code, 0) << file.err;
  const std::vector<Json> answers = kit::json_lines_of(file.out);
  ASSERT_EQ(answers.size(), 10u);
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i]["text"], sentence(100 + i));
    EXPECT_EQ(answers[i]["label"], kLabels[i % 2]);
    EXPECT_GT(answers[i]["probability"], 0.5);
    EXPECT_LE(answers[i]["probability"], 1.0);
  }
  const Finished piped = run_program({"predict", run("tuned"), "--json"}, {.stdin_text = text});
  EXPECT_EQ(piped.out, file.out);
  const std::vector<std::string> shown =
      kit::lines_of(run_program({"predict", run("tuned")}, {.stdin_text = text}).out);
  ASSERT_EQ(shown.size(), 10u);
  EXPECT_TRUE(shown[1].starts_with("good\t")) << shown[1];
  EXPECT_TRUE(shown[1].ends_with(sentence(101))) << shown[1];
}

TEST_F(Tasks, EncodeGivesEqualLinesEqualRows) {
  const std::string text = sentence(1) + "\n" + sentence(2) + "\n" + sentence(3) + "\n" + sentence(1) + "\n";
  const std::string rows = *scratch_ / "rows.safetensors";
  const Finished f =
      run_program({"encode", run("encoder"), "--out", rows, "--nearest", "1", "--json"}, {.stdin_text = text});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.err.find("4 rows of 16 numbers"), std::string::npos) << f.err;
  const Tensor table = zeros({4, 16}, DType::f32);
  SafetensorsFile(rows).read("rows", table);
  for (int64_t c = 0; c < 16; ++c) EXPECT_EQ(value_at(table, c), value_at(table, 3 * 16 + c));
  const std::vector<Json> near = kit::json_lines_of(f.out);
  ASSERT_EQ(near.size(), 4u);
  EXPECT_EQ(near[0]["other"], sentence(1));
  EXPECT_EQ(near[3]["other"], sentence(1));
  EXPECT_NEAR(near[0]["score"], 1, 1e-6);

  const Finished query =
      run_program({"encode", run("encoder"), *scratch_ / "lines.txt", "--nearest", "2", "--query", sentence(104)});
  EXPECT_EQ(kit::lines_of(query.out).size(), 2u) << query.err;
  EXPECT_EQ(query.out.substr(0, query.out.find('\n')), cat("1.0000\t", sentence(104), "\t", sentence(104)));
}

TEST_F(Tasks, EncodeComparesPairs) {
  const std::string text = cat(sentence(1), "\t", sentence(1), "\n", sentence(1), "\t", sentence(2), "\n");
  const Finished f = run_program({"encode", run("encoder"), "--pairs", "--json"}, {.stdin_text = text});
  ASSERT_EQ(f.code, 0) << f.err;
  const std::vector<Json> pairs = kit::json_lines_of(f.out);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_NEAR(pairs[0]["score"], 1, 1e-6);
  EXPECT_LT(pairs[1]["score"], pairs[0]["score"]);
  EXPECT_EQ(pairs[1]["other"], sentence(2));
  const Finished euclidean =
      run_program({"encode", run("encoder"), "--pairs", "--measure", "euclidean"}, {.stdin_text = text});
  EXPECT_TRUE(euclidean.out.starts_with("0.0000\t") || euclidean.out.starts_with("-0.0000\t")) << euclidean.out;
}

TEST_F(Tasks, EncodeSaysHowSimilaritiesCorrelateWithScores) {
  const auto pair = [](int other, const char* score) {
    return cat(sentence(1), "\t", sentence(other), "\t", score, "\n");
  };
  const std::string text = cat(pair(1, "5"), pair(2, "1.5"), pair(104, "-2e0"));
  const Finished f = run_program({"encode", run("encoder"), "--pairs", "--gold", "--json"}, {.stdin_text = text});
  ASSERT_EQ(f.code, 0) << f.err;
  const std::vector<Json> lines = kit::json_lines_of(f.out);
  ASSERT_EQ(lines.size(), 4u);
  std::vector<double> scores;
  for (size_t i = 0; i < 3; ++i) scores.push_back(lines[i]["score"]);
  EXPECT_NEAR(lines[3]["pearson"], pearson(std::vector<double>{5, 1.5, -2}, scores), 1e-12);
  EXPECT_NEAR(lines[3]["spearman"], spearman(std::vector<double>{5, 1.5, -2}, scores), 1e-12);
  EXPECT_EQ(lines[3]["pairs"], 3);
  EXPECT_EQ(lines[0]["other"], sentence(1));
  const Finished said = run_program({"encode", run("encoder"), "--pairs", "--gold"}, {.stdin_text = text});
  EXPECT_NE(said.err.find(" with the scores of 3 pairs"), std::string::npos) << said.err;
  const std::string encoder = run("encoder");
  expect_error({"encode", encoder, "--pairs", "--gold"}, 2, {"line 1 has no tab and score"}, "a\tb\n");
  expect_error({"encode", encoder, "--pairs", "--gold"}, 2, {"line 2 ends with '3x'"}, "a\tb\t1\na\tb\t3x\n");
  expect_error({"encode", encoder, "--pairs", "--gold"}, 2, {"line 1 ends with 'nan'"}, "a\tb\tnan\n");
  expect_error({"encode", encoder, "--gold", "--nearest", "1"}, 2, {"--gold is of --pairs"}, "a\nb\n");
}

TEST_F(Tasks, FinetuneContinuesWhatIsThere) {
  fs::copy(run("encoder"), run("twin"), fs::copy_options::recursive);
  const std::string out = *scratch_ / "tables";
  const std::vector<std::string> words = {"finetune", run("encoder"), run("twin"), "--tasks", recipe(), "--seeds",
                                          "1,2",      "--scratch",    "--out",     out,       "--json"};
  const Finished first = run_program(words);
  ASSERT_EQ(first.code, 0) << first.err;
  for (const char* extension : {"json", "md", "html"}) EXPECT_TRUE(fs::exists(cat(out, "/finetuning.", extension)));
  EXPECT_EQ(read_file(cat(out, "/finetuning.json")), first.out);
  const Json json = parse_json(first.out, "finetune --json");
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["tasks"][0]["name"], "planted");
  EXPECT_EQ(json["tasks"][0]["majority"][0], 0.5);
  ASSERT_EQ(json["models"].size(), 4u);
  const char* const names[] = {"encoder", "twin", "encoder-scratch", "twin-scratch"};
  for (size_t m = 0; m < 4; ++m) {
    const Json& model = json["models"][m];
    EXPECT_EQ(model["name"], names[m]);
    EXPECT_EQ(model["fresh"], m >= 2);
    EXPECT_EQ(model["parameters"], json["models"][0]["parameters"]);
    EXPECT_EQ(model["tasks"][0]["scores"].size(), 2u);
    // A copy of a run is the same model: the same scores, whatever they are.
    EXPECT_EQ(model["tasks"][0]["scores"], json["models"][m / 2 * 2]["tasks"][0]["scores"]);
  }
  // What a copy has of the base's speed is noise, and the report says within which interval: measured in turns, it
  // holds what one would find by chance.
  EXPECT_TRUE(json["models"][0]["speed_up"].is_null());
  for (size_t m = 1; m < 4; ++m) {
    EXPECT_EQ(json["models"][m]["tasks"][0]["sample_seconds"].size(), 7u);
    const Json& speed = json["models"][m]["speed_up"];
    EXPECT_LT(speed["low"], speed["value"]) << speed;
    EXPECT_LT(speed["value"], speed["high"]) << speed;
  }
  EXPECT_NE(read_file(cat(out, "/finetuning.md")).find(" to "), std::string::npos);
  EXPECT_EQ(json["models"][1]["prr"], 100.0);
  EXPECT_EQ(json["models"][1]["pcr_all"], 0.0);
  EXPECT_NE(read_file(cat(out, "/finetuning.md")).find("twin-scratch"), std::string::npos);

  const std::string weights = cat(out, "/runs/twin/planted/seed-2/model.safetensors");
  const auto written = fs::last_write_time(weights);
  const Finished second = run_program(words);
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.out, first.out);
  EXPECT_EQ(fs::last_write_time(weights), written);
  EXPECT_EQ(second.err.find("seed 1"), std::string::npos) << second.err;
}

TEST_F(Tasks, ModelsThatDoNotFit) {
  const std::string none = *scratch_ / "nowhere";
  expect_error({"predict", none}, 2, {"nowhere"}, "a\n");
  expect_error({"encode", none, "--pairs"}, 2, {"nowhere"}, "a\tb\n");
  expect_error({"finetune", none, "--tasks", recipe(), "--out", run("refused")}, 2, {"nowhere", "config.json"});
  expect_error({"train", recipe(), "--set", cat("from_pretrained=", none), "--out", run("refused")}, 2,
               {"from_pretrained", "nowhere", "config.json"});
  expect_error({"predict", run("encoder")}, 2, {"was not trained on a task"}, "a\n");
  expect_error({"generate", run("encoder"), "--prompt", "the"}, 2, {"encoder"});
  expect_error({"generate", run("tuned"), "--prompt", "the"}, 2, {"generate"});
  expect_error({"finetune", run("encoder"), run("encoder"), "--tasks", recipe(), "--out", run("refused")}, 2,
               {"two models are named 'encoder'", "NAME=DIR"});
  expect_error({"finetune", cat("a=", run("encoder")), "--tasks", *scratch_ / "pretrain.yaml", "--out", run("refused")},
               2, {"has no section task"});
  expect_error({"finetune", run("encoder"), "--tasks", recipe(), "--seeds", "1,1,1", "--out", run("refused")}, 2,
               {"seeds repeats a value"});
  EXPECT_FALSE(fs::exists(run("refused")));
}

TEST_F(Tasks, TasksAndLinesThatDoNotFit) {
  expect_error(training(scratch_->add("bad.yaml", task(", trian: [a]"))), 2,
               {"bad.yaml:1:", "'trian'", "did you mean 'train'"});
  expect_error(training(scratch_->add("type.yaml", task(", type: clasification"))), 2,
               {"type.yaml:1:", "did you mean 'classification'"});
  const std::string odd = scratch_->add("odd.txt", "good a fine film\nugly a poor film\n");
  expect_error({"eval", run("tuned"), "--cache-type", "int8"}, 2, {"--cache-type is for models of text"});
  expect_error({"eval", run("tuned"), odd}, 1, {"odd.txt", "'ugly'", "the labels are bad, good"});
  expect_error(training(scratch_->add("labels.yaml", task(", labels: [good, poor]"))), 1, {"'bad'", "good, poor"});
  expect_error({"encode", run("encoder"), "--pairs"}, 2, {"line 2 has no tab"}, "a\tb\nc\n");
  expect_error({"encode", run("encoder")}, 2, {"nothing to do"}, "a\n");
  expect_error({"encode", run("encoder"), "--nearest", "5"}, 2, {"--nearest 5 of only 1"}, "a\nb\n");
}

}  // namespace
}  // namespace lithe
