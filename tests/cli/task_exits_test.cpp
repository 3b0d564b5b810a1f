// Early exits of encoders as a person or a script meets them: pre-trained with exits, fine-tuned for a task, and
// answering sentences by a rule. The data are planted: a sentence is good when it has a good word.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

std::string planted_sentence(int i) {
  static const char* const telling[2][3] = {{"poor", "dull", "nasty"}, {"fine", "lovely", "bright"}};
  static const char* const common[] = {"the", "cat", "film", "was", "seen", "here", "now"};
  std::string text;
  for (int w = 0; w < 6; ++w)
    text += cat(w ? " " : "", w == i / 2 % 6 ? telling[i % 2][i / 12 % 3] : common[(i * 5 + w * w) % 7]);
  return text;
}

std::vector<Json> answers_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<Json> out;
  for (std::string line; std::getline(in, line);) out.push_back(parse_json(line, "an answer"));
  return out;
}

class TaskExits : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    const auto lines = [](int from, int to, bool labelled) {
      std::string text;
      for (int i = from; i < to; ++i)
        text += cat(labelled ? (i % 2 ? "good " : "bad ") : "", planted_sentence(i), "\n");
      return text;
    };
    scratch_->add("corpus.txt", lines(200, 500, false));
    scratch_->add("train.txt", lines(0, 60, true));
    scratch_->add("test.txt", lines(60, 80, true));
    scratch_->add("lines.txt", lines(100, 110, false));
    scratch_->add(
        "task.yaml",
        cat("task: {format: label_text, train: [\"", *scratch_ / "train.txt", "\"], test: [\"", *scratch_ / "test.txt",
            "\"]}\ndata: {sequence_length: 16}\ntrain: {objective: task, num_train_epochs: 10, batch_tokens: "
            "128, learning_rate: 0.02}\n"));
    for (const char* stack : {"early_exit", "plain"}) {
      const std::string recipe = scratch_->add(
          cat(stack, ".yaml"),
          cat("model: {architecture: encoder, hidden_size: 16, num_hidden_layers: 3, position: learned, mixer: {type: "
              "attention, num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 32}, head: mlm, stack: ",
              stack, "}\ndata: {files: [\"", *scratch_ / "corpus.txt",
              "\"], documents: line, sequence_length: 16, tokenizer: {type: wordpiece, vocab_size: 100}, "
              "cache_directory: \"",
              *scratch_ / "cache",
              "\"}\ntrain: {objective: mlm, max_steps: 5, batch_tokens: 128, learning_rate: 0.01}\n"));
      ASSERT_EQ(run_program({"train", recipe, "--out", run(cat(stack, "-encoder"))}).code, 0);
      const Finished f = run_program({"train", *scratch_ / "task.yaml", "--set",
                                      cat("from_pretrained=", run(cat(stack, "-encoder"))), "--out", run(stack)});
      ASSERT_EQ(f.code, 0) << f.err;
    }
  }
  static void TearDownTestSuite() { delete scratch_; }
  static std::string run(const std::string& name) { return *scratch_ / name; }
  static Finished predict(const std::string& rule) {
    std::vector<std::string> words{"predict", run("early_exit"), *scratch_ / "lines.txt", "--json"};
    if (!rule.empty()) words.insert(words.end(), {"--exit", rule});
    return run_program(words);
  }

  static inline kit::Scratch* scratch_ = nullptr;
};

TEST_F(TaskExits, ExitsLearnTheTaskToo) {
  const std::string log = read_file(run("early_exit") + "/metrics.jsonl");
  for (const char* exit : {"\"exit_1\"", "\"exit_2\""}) EXPECT_NE(log.find(exit), std::string::npos);
  EXPECT_EQ(read_file(run("plain") + "/metrics.jsonl").find("exit_1"), std::string::npos);
}

// oracle: exit.classifier
TEST_F(TaskExits, PredictAnswersByARule) {
  const Finished whole = predict(""), first = predict("layer:1");
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(answers_of(whole.out).size(), 10u);
  EXPECT_NE(first.out, whole.out);  // probabilities of another layer
  EXPECT_NE(first.err.find("layer:1: 1 of 3 layers"), std::string::npos) << first.err;
  // A test that all pass is the first exit, one that none does the whole model.
  EXPECT_EQ(predict("entropy:100").out, first.out);
  EXPECT_EQ(predict("maxprob:0").out, first.out);
  EXPECT_EQ(predict("entropy:0").out, whole.out);
  EXPECT_EQ(predict("layer:3").out, whole.out);
  const std::vector<Json> answers = answers_of(predict("patience:1").out);
  ASSERT_EQ(answers.size(), 10u);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i]["label"], i % 2 ? "good" : "bad");
}

// oracle: exit.classifier
TEST_F(TaskExits, EvalScoresARuleAndDrawsThemAll) {
  const Json scored = parse_json(run_program({"eval", run("early_exit"), "--exit", "layer:2", "--json"}).out, "eval");
  EXPECT_EQ(scored["mean_layers"], 2.0);
  EXPECT_EQ(scored["accuracy"], 1.0);
  const Finished f = run_program({"eval", run("early_exit"), "--exits", "--json"});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json table = parse_json(f.out, "eval --exits");
  EXPECT_EQ(table["quality"], "accuracy");
  EXPECT_EQ(table["unit"], "sentence");
  std::set<std::string> criteria;
  for (const Json& point : table["points"]) {
    criteria.insert(point["criterion"]);
    EXPECT_GE(point["mean_layers"], 1.0);
    EXPECT_LE(point["mean_layers"], 3.0);
    EXPECT_GT(point["milliseconds"], 0.0);
    if (point["rule"] == "layer:1") {
      EXPECT_EQ(point["mean_layers"], 1.0);
    }
  }
  for (const char* name :
       {"all layers", "layer", "entropy", "maxprob", "margin", "similarity", "divergence", "patience"})
    EXPECT_EQ(criteria.count(name), 1u) << name;
  const std::string page = read_file(run("early_exit") + "/exits.html");
  EXPECT_NE(page.find("accuracy against layers"), std::string::npos);
}

TEST_F(TaskExits, WhatCannotBeIsRefusedWithTheRemedy) {
  const auto refused = [](const Finished& f, const std::string& words) {
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_EQ(f.out, "");
    EXPECT_NE(f.err.find(words), std::string::npos) << f.err;
  };
  refused(predict("entropy:0.3:token"), "this model's head predicts for whole sequences; leave :token out");
  refused(predict("layer:7"), "this model has them after 1, 2");
  refused(predict("predictor"), "depth_predictor: true");
  refused(run_program({"eval", run("plain"), "--exit", "layer:1"}), "has no exits; train one with model.stack");
  refused(run_program({"predict", run("plain"), *scratch_ / "lines.txt", "--exit", "layer:1"}), "has no exits");
}

}  // namespace
}  // namespace lithe
