// A small trained run, and what a person or a script that does something wrong with it must see.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "lithe/base/error.h"
#include "tests/support/program_test.h"

namespace lithe::kit {

class RunTest : public ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!have_program()) return;
    scratch_ = new Scratch;
    scratch_->add("text.txt", small_text(3000));
    recipe_ = new std::string(scratch_->add(
        "recipe.yaml",
        cat("model: {hidden_size: 16, num_hidden_layers: 1, position: learned, mixer: {type: attention, "
            "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 32}}\ndata: {files: [\"",
            *scratch_ / "text.txt",
            "\"], documents: paragraph, validation_fraction: 0.1, sequence_length: 16, cache_directory: \"",
            *scratch_ / "cache",
            "\"}\ntrain: {max_steps: 6, batch_tokens: 64, learning_rate: 0.01, save_steps: 3}\ngenerate: {prompt: "
            "the, max_new_tokens: 6}\n")));
    run_ = new std::string(*scratch_ / "run");
    ASSERT_EQ(run_program({"train", *recipe_, "--out", *run_}).code, 0);
  }
  static void TearDownTestSuite() { delete scratch_; }
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(run_ && std::filesystem::exists(*run_ + "/model.safetensors"));
  }
  // Exit code, nothing on stdout, and a last line "lithe: ..." that holds all the words.
  void expect_error(const std::vector<std::string>& arguments, int code, const std::vector<std::string>& words) {
    const Finished f = run_program(arguments);
    std::string shown;
    for (const std::string& a : arguments) shown += a.substr(0, 100) + " ";
    EXPECT_EQ(f.code, code) << shown << "\n" << f.err;
    EXPECT_EQ(f.out, "") << shown;
    const size_t at = f.err.find("lithe: ");
    ASSERT_NE(at, std::string::npos) << shown << f.err;
    const std::string line = f.err.substr(at);
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << shown << line;
    EXPECT_EQ(line.find("internal"), std::string::npos) << line;
    for (const std::string& word : words)
      EXPECT_NE(line.find(word), std::string::npos) << "no '" << word << "' in: " << line;
  }
  // A copy of the trained run that can be damaged: its files are no longer links to the checkpoint's.
  std::string copy_of_run(const std::string& name) {
    std::filesystem::copy(*run_, *scratch_ / name, std::filesystem::copy_options::recursive);
    return *scratch_ / name;
  }
  // Initial weights of a model that transformers knows, and what `lithe export` makes of a run.
  std::string untrained_llama(int intermediate_size = 32) {
    const std::string run = *scratch_ / "llama";
    EXPECT_EQ(run_program({"init", *recipe_, "--out", run, "--set", "model.position={type: rotary}", "--set",
                           cat("model.ffn={type: swiglu, intermediate_size: ", intermediate_size, "}")})
                  .code,
              0);
    return run;
  }
  std::string exported_of(const std::string& run) {
    const std::string exported = *scratch_ / "exported";
    EXPECT_EQ(run_program({"export", run, "--out", exported}).code, 0);
    return exported;
  }
  void overwrite(const std::string& file, const std::string& bytes) {
    std::filesystem::remove(file);
    scratch_->add(std::filesystem::relative(file, scratch_->path()).string(), bytes);
  }

  static inline Scratch* scratch_ = nullptr;
  static inline std::string *recipe_ = nullptr, *run_ = nullptr;
};

}  // namespace lithe::kit
