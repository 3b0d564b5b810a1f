// `lithe import`, `export`, `convert` and `eval --tasks` as a person or a script meets them.
#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

class Interchange : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    kit::train_small_run(*scratch_,
                         "{hidden_size: 32, num_hidden_layers: 2, mixer: {type: attention, num_attention_heads: 2, "
                         "output: hadamard}, ffn: {type: swiglu, intermediate_size: 64}}");
  }
  static void TearDownTestSuite() { delete scratch_; }
  static std::string at(const std::string& name) { return *scratch_ / name; }
  static std::string output_of(const std::vector<std::string>& arguments) {
    const Finished f = run_program(arguments);
    EXPECT_EQ(f.code, 0) << f.err;
    return f.out;
  }

  static inline kit::Scratch* scratch_ = nullptr;
};

TEST_F(Interchange, AModelGoesOutAndComesBackAsItWas) {
  expect_error({"export", at("run"), "--out", at("hf")}, 2, "mixer.output.type is hadamard, not dense");
  const std::string folded = output_of({"convert", at("run"), "--densify", "--out", at("dense")});
  EXPECT_NE(folded.find("layers.1.mixer: heads mha, output hadamard -> mha, dense"), std::string::npos) << folded;
  const std::vector<std::string> prompt{"--prompt", "the ", "--greedy", "--max-new-tokens", "12"};
  const auto told = [&](const std::string& run) {
    std::vector<std::string> arguments{"generate", run};
    arguments.insert(arguments.end(), prompt.begin(), prompt.end());
    return output_of(arguments);
  };
  EXPECT_EQ(told(at("dense")), told(at("run")));
  output_of({"export", at("dense"), "--out", at("hf")});
  output_of({"import", at("hf"), "--out", at("back")});
  output_of({"export", at("dense"), "--out", at("model.gguf"), "--format", "gguf"});
  output_of({"import", at("model.gguf"), "--out", at("from-gguf")});
  for (const char* run : {"back", "from-gguf"})
    EXPECT_EQ(read_file(at(run) + "/model.safetensors"), read_file(at("dense") + "/model.safetensors")) << run;
  // The others take it as a run.
  output_of({"eval", at("back"), at("text.txt"), "--context-length", "16"});
  output_of({"quantize", at("back"), "--out", at("int8"), "--text", at("text.txt")});
  output_of({"inspect", at("back"), "--text", "the people"});
}

TEST_F(Interchange, APartIsExchangedAndTheListSaysWhatBecameOfTheRest) {
  const std::string list = output_of({"convert", at("run"), "--set", "model.mixer.output.type=dense", "--set",
                                      "model.mixer.heads.type=mqa", "--out", at("exchanged")});
  for (const char* words :
       {"kept ", "fitted            layers.0.mixer.heads.k.weight [32,16]: mean of 2 heads each",
        "initialised       layers.0.mixer.output.weight [32,32]", "left out          layers.0.mixer.output.alpha [32]"})
    EXPECT_NE(list.find(words), std::string::npos) << list;
  output_of({"eval", at("exchanged"), "--json"});
  expect_error({"convert", at("run"), "--out", at("x")}, 2, "give --densify, or one or more --set");
  expect_error({"convert", at("run"), "--set", "train.seed=2", "--out", at("x")}, 2, "must be model.KEY=VALUE");
}

TEST_F(Interchange, WhatGoesAlongWithWeightsStaysWithThem) {
  const std::string chat = "{{ messages }}";
  write_file(at("run/chat_template.jinja"), chat);
  const std::vector<std::vector<std::string>> makers = {
      {"convert", "--densify"}, {"quantize"}, {"grow", "--layers", "4"}};
  for (const auto& maker : makers) {
    const std::string out = at("of_" + maker[0]);
    std::vector<std::string> arguments{maker[0], at("run"), "--out", out};
    arguments.insert(arguments.end(), maker.begin() + 1, maker.end());
    output_of(arguments);
    EXPECT_EQ(read_file(out + "/chat_template.jinja"), chat) << maker[0];
    EXPECT_EQ(read_file(out + "/generation_config.json"), read_file(at("run/generation_config.json"))) << maker[0];
  }
  std::filesystem::remove(at("run/chat_template.jinja"));
}

TEST_F(Interchange, ZeroShotTasksHaveTheHarnesssLayout) {
  scratch_->add("hill.jsonl",
                "{\"q\": \"the\", \"choices\": [\"people\", \"~~~~\"], \"gold\": 0}\n"
                "{\"q\": \"a\", \"choices\": [\"b\", \"c\"], \"gold\": 1}\n");
  const std::string task =
      scratch_->add("hill.yaml",
                    "task: hill\noutput_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: "
                    "choices\ndoc_to_target: gold\ndata_files: [hill.jsonl]\n");
  const Json json = parse_json(output_of({"eval", at("run"), "--tasks", task, "--json"}), "eval");
  EXPECT_TRUE(json["results"]["hill"].contains("acc,none") && json["results"]["hill"].contains("acc_norm_stderr,none"));
  EXPECT_EQ(json["n-samples"]["hill"]["effective"], 2);
  EXPECT_EQ(json["configs"]["hill"]["doc_to_text"], "{{q}}");
  expect_error({"eval", at("run"), "--tasks", at("none.yaml")}, 2, "is no file");
  expect_error({"eval", at("run"), "--limit", "3"}, 2, "--limit is for --tasks");
  expect_error({"eval", at("run"), "--tasks", task, "--by-position"}, 2, "--by-position belongs to the perplexity");
}

TEST_F(Interchange, WrongUsageIsOneLine) {
  expect_error({"import", at("nowhere"), "--out", at("x")}, 2, "does not exist");
  expect_error({"import", at("run"), "--out", at("x")}, 2, "model_type 'lithe' is not among those");
  expect_error({"import", at("text.txt"), "--out", at("x")}, 1, "does not begin with GGUF");
  expect_error({"export", at("run"), "--out", at("x"), "--type", "q8_0"}, 2, "--type q8_0 is for --format gguf");
  for (const char* verb : {"import", "export", "convert"})
    EXPECT_NE(output_of({verb, "--help"}).find("Example: lithe " + std::string(verb)), std::string::npos);
}

}  // namespace
}  // namespace lithe
