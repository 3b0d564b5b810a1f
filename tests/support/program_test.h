// Tests of the program as a person or a script meets it.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace lithe::kit {

/// Skipped where there is no program.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_program()) GTEST_SKIP() << "LITHE_BINARY is not set";
  }
  /// Ends with `code`, prints nothing, and says `words`.
  static void expect_error(const std::vector<std::string>& arguments, int code, const std::string& words) {
    const Finished f = run_program(arguments);
    EXPECT_EQ(f.code, code) << f.err;
    EXPECT_EQ(f.out, "");
    EXPECT_NE(f.err.find(words), std::string::npos) << f.err;
  }
};

/// Trains the model of that section of a recipe on a small text for 20 steps, as the run "run" of `scratch`.
inline void train_small_run(Scratch& scratch, const std::string& model) {
  scratch.add("text.txt", small_text(4000));
  const std::string recipe =
      scratch.add("recipe.yaml",
                  cat("model: ", model, "\ndata: {files: [\"", scratch / "text.txt",
                      "\"], documents: paragraph, validation_fraction: 0.2, sequence_length: 16, cache_directory: \"",
                      scratch / "cache",
                      "\"}\ntrain: {max_steps: 20, batch_tokens: 128, learning_rate: 0.01}\ngenerate: {prompt: the, "
                      "max_new_tokens: 8}\n"));
  ASSERT_EQ(run_program({"train", recipe, "--out", scratch / "run"}).code, 0);
}

}  // namespace lithe::kit
