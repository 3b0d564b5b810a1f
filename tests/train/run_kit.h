// Small training runs in this process.
#pragma once

#include <gtest/gtest.h>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/threads.h"
#include "lithe/train/checkpoint.h"
#include "lithe/train/trainer.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"
#include "tests/support/text.h"

namespace lithe::kit {

/// Data of a run, some of it held out.
inline const std::string kHeldOutData = "{sequence_length: 16, validation_fraction: 0.1}";

/// A run of a recipe's sections model, data and train. `data` needs no files: they are `text`, put into the scratch.
class TrainKit {
 public:
  explicit TrainKit(const std::string& text = small_text(6000)) {
    set_log_level(LogLevel::error);
    set_threads(1);  // models this small gain nothing from more
    file_ = scratch.add("text.txt", text);
  }

  TrainRun run(const std::string& model, const std::string& data, const std::string& train,
               const std::string& out = "run") const {
    TrainRun run{.out = scratch.path() / out, .samples = false};
    Recipe& recipe = run.recipe;
    recipe.model =
        read_model_config(parse_yaml("{vocab_size: 257, hidden_size: 16, num_hidden_layers: 1, mixer: {type: "
                                     "attention, num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}}",
                                     "base"));
    Node model_node = parse_yaml(model, "model"), data_node = parse_yaml(data, "data"),
         train_node = parse_yaml(train, "train");
    if (!model_node.is_null()) recipe.model = read_model_config(model_node);
    if (!data_node.find("files")) data_node.set("files", Node::scalar(file_));
    data_node.set("cache_directory", Node::scalar((scratch.path() / "cache").string()));
    read_fields(data_node, "data", [&](Fields& f) { recipe.data.fields(f); });
    read_fields(train_node, "train", [&](Fields& f) { recipe.train.fields(f); });
    return run;
  }

  /// A copy of a finished run, named `out`, as a kill after the checkpoint of step `last` would have left it.
  TrainRun killed_after(const TrainRun& whole, int64_t last, const std::string& out) const {
    TrainRun run = whole;
    run.out = scratch.path() / out;
    run.resume = true;
    std::filesystem::copy(whole.out, run.out, std::filesystem::copy_options::recursive);
    drop_checkpoints_after(run.out, last);
    return run;
  }

  Scratch scratch;

 private:
  std::string file_;
};

inline std::vector<Json> json_lines(const Path& file) { return json_lines_of(read_file(file), file.string()); }

/// The losses of metrics.jsonl by step.
inline std::map<int64_t, double> losses_of(const Path& run) {
  std::map<int64_t, double> out;
  for (const Json& line : json_lines(run / "metrics.jsonl"))
    if (line.contains("loss")) out[line["step"]] = line["loss"];
  return out;
}

}  // namespace lithe::kit
