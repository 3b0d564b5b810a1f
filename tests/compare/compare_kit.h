// A small corpus, a small recipe and an experiment in a directory of their own.
#pragma once

#include <gtest/gtest.h>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/random.h"
#include "lithe/base/threads.h"
#include "lithe/compare/compare.h"
#include "tests/support/process.h"

namespace lithe::kit {

/// Variants of an experiment: two that are the same, and three kinds of heads.
inline const std::string kTwins = "baseline: a\nvariants: {a: {}, b: {}}\n",
                         kHeads =
                             "baseline: mha\nvariants: {mha: {}, sha: {model.mixer.heads: sha}, mhe: "
                             "{model.mixer.heads: mhe_mul}}\n";

struct CompareKit {
  Scratch scratch;
  Path directory = scratch.path();

  CompareKit() {
    set_threads(1);  // models this small gain nothing from more
    set_log_level(LogLevel::error);
    static const char* words[] = {"the ", "king ", "went ", "up ", "and ", "saw ", "a ", "hill ", "of ", "stones.\n"};
    std::string text;
    for (uint64_t i = 0; i < 2500; ++i) text += words[random_below({.seed = 3}, i, 10)];
    write_file(directory / "text.txt", text);
    recipe("base.yaml", "");
  }

  void recipe(const std::string& name, const std::string& model, const std::string& data = "") const {
    write_file(directory / name,
               cat("model: {hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, num_attention_heads: 4}, "
                   "ffn: {type: swiglu, intermediate_size: 32}",
                   model, "}\ndata: {files: [", (directory / "text.txt").string(),
                   "], validation_fraction: 0.1, tokenizer: {type: bytes}, sequence_length: 16, cache_directory: ",
                   (directory / "cache").string(), data,
                   "}\ntrain: {max_steps: 12, batch_tokens: 64, learning_rate: 0.01, eval_steps: 6}\n"));
  }

  /// An experiment on base.yaml; `keys` are its lines beside recipe.
  Path experiment(const std::string& keys, const std::string& name = "experiment.yaml") const {
    write_file(directory / name, "recipe: base.yaml\n" + keys);
    return directory / name;
  }

  compare::Comparison run(const std::string& keys, const std::string& out = "out", bool plan_only = false) const {
    const compare::Request request{experiment(keys), directory / out, plan_only};
    return compare::compare(request);
  }
  compare::Comparison plan(const std::string& keys) const { return run(keys, "out", true); }

  Json json(const std::string& out = "out") const {
    const Path file = directory / out / "comparison.json";
    return parse_json(read_file(file), file.string());
  }

  /// Runs and gives the message of the refusal, which must be of the usage kind.
  std::string refusal(const std::string& keys) const {
    try {
      plan(keys);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "not refused: " << keys;
    return "";
  }
};

inline const std::string kNoTiming = "measure: {repeats: 0}\n";
inline const std::string kSmallTiming =
    "measure: {prompt_lengths: [4, 8], batch_sizes: [1, 2], decode_tokens: 2, repeats: 3, train_steps: 1}\n";

}  // namespace lithe::kit
