// What `lithe eval` measures of a run; each function prints the result and returns the exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lithe/base/json.h"
#include "lithe/cli/eval_translation.h"
#include "lithe/cli/neighbour_options.h"
#include "lithe/eval/exit_table.h"
#include "lithe/infer/load.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

struct EvalOptions {
  std::string model, weights, precision = "f32", skip_part = "layer";
  std::optional<std::string> skip, cache_type;
  std::vector<std::string> files, tasks;
  int64_t limit = 0, num_fewshot = -1;
  int64_t context = 0, stride = 0, batch_tokens = 0;
  double misspell = 0;
  int64_t misspell_seed = 1;
  bool json = false, el_rewrite = false, carry_state = false, exits = false, by_position = false;
  std::string task, per_token, choices, exit, exits_report;
  int64_t exit_tokens = 2048;
  TranslationEvalOptions translation;
  DatastoreOptions datastore;
};

/// Which weights were measured: "last", "best", "averaged" or a file, and the step that they are of where the run says
/// it.
struct WeightsUsed {
  std::string name;
  std::optional<int64_t> step;
  std::string text() const { return name + (step ? cat(", step ", *step) : ""); }
  void add_to(Json& json) const {
    json["weights"] = name;
    if (step) json["weights_step"] = *step;
  }
};
WeightsUsed weights_used(const EvalOptions& o);
void print_weights(const EvalOptions& o);

/// The loss of each token of the run's held-out text or of o.files, given those before it.
int eval_text(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded);
/// The metrics of a task on its test part, else its validation part, or on the files given.
int eval_task(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded);
/// The loss of masked or corrupted tokens on the held-out text, by the draws that the trainer's evaluations use.
int eval_objective(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded);
/// Tasks described by the evaluation harness's YAML, and results in its layout.
int eval_zero_shot(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded);
/// Log-likelihoods of given choices, a line of JSON a document.
int eval_choices(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded);
/// The table of early exits, as text or JSON and as a page.
int print_exits(const EvalOptions& o, const ExitTable& table);

}  // namespace lithe
