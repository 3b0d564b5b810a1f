#include "lithe/cli/eval_run.h"

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/eval_exits.h"
#include "lithe/eval/finite_result.h"
#include "lithe/eval/measured_part.h"
#include "lithe/eval/misspell.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/eval/task_report.h"
#include "lithe/model/exits.h"
#include "lithe/parallel/job.h"
#include "lithe/train/plan.h"
#include "lithe/train/training_data.h"

namespace lithe {

WeightsUsed weights_used(const EvalOptions& o) {
  WeightsUsed used{.name = o.weights.empty() ? "last" : o.weights};
  const Path file = Path(o.model) / "result.json";
  const char* key = o.weights.empty() ? "steps" : o.weights == "best" ? "best_step" : nullptr;
  if (!key || !std::filesystem::exists(file)) return used;
  Json result;
  try {
    result = parse_json(read_file(file), file.string());
  } catch (const Error& error) {
    log_warning(error.what(), "; the step of the weights is not known");
  }
  if (result.is_object() && result.contains(key) && result[key].is_number_integer())
    used.step = result[key].get<int64_t>();
  return used;
}

void print_weights(const EvalOptions& o) { std::printf("weights           %s\n", weights_used(o).text().c_str()); }

int print_exits(const EvalOptions& o, const ExitTable& table) {
  const Path page = o.exits_report.empty() ? Path(o.model) / "exits.html" : Path(o.exits_report);
  write_file(page, exit_table_page(table, Path(o.model).filename().string()));
  if (o.json) {
    Json json = exit_table_json(table);
    weights_used(o).add_to(json);
    json["report"] = page.string();
    std::cout << dump(json, 2, Invalid::replaced) << "\n";
    return 0;
  }
  std::fputs(exit_table_text(table).c_str(), stdout);
  std::printf("report            %s\n", page.string().c_str());
  print_weights(o);
  return 0;
}

int eval_task(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  check_usage(!o.context && !o.stride, "eval", "--context-length and --stride belong to models of text");
  const std::vector<std::string>& labels = loaded.model->config().label_names;
  auto [examples, train, part] = measured_examples(recipe.task, o.files, labels);
  check_usage(o.misspell == 0 || task_type(recipe.task) != TaskType::span, "eval",
              "--misspell would move the answers of a span task");
  for (size_t i = 0; o.misspell > 0 && i < examples.size(); ++i)
    misspell(examples[i], o.misspell, uint64_t(o.misspell_seed));
  const TaskType type = task_type(recipe.task);
  const TaskBatches batches(std::move(examples), type, *loaded.tokenizer, recipe.data.sequence_length,
                            recipe.train.batch_tokens, 0, false, task_reading(recipe));
  batches.warn_of_cut();
  if (o.exits) {
    TaskBatches one_by_one(std::vector<Example>(batches.examples()), type, *loaded.tokenizer,
                           recipe.data.sequence_length, 1, 0, false, task_reading(recipe));
    return print_exits(o, task_exit_table(*loaded.model, one_by_one, recipe.task, labels, exit_grid(*loaded.model)));
  }
  std::optional<ExitRun> exits = exit_run_of(*loaded.model, o.exit);
  const TaskAnswers answers = answer(*loaded.model, batches, {}, exits ? &*exits : nullptr);
  if (stop_signal()) return 128 + stop_signal();
  check_finite_result("eval", "the loss", answers.loss);
  const TaskReport report = task_report(recipe.task, answers.predictions, batches.examples(),
                                        baseline_scores(recipe.task, batches.examples(), train, labels), labels);
  const size_t count = batches.examples().size();
  if (o.json) {
    Json json = {{"part", part}, {"examples", count}, {"loss", answers.loss}};
    add_task_report(report, labels, json);
    if (exits) json["mean_layers"] = exits->mean_layers();
    weights_used(o).add_to(json);
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  std::printf("%-17s %.4f (%zu examples, %s)\n", "loss", answers.loss, count, part.c_str());
  if (exits) std::printf("mean layers       %.2f\n", exits->mean_layers());
  std::fputs(task_report_text(report, labels).c_str(), stdout);
  print_weights(o);
  for (const std::string& warning : task_warnings(report)) log_warning(warning);
  return 0;
}

int eval_objective(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  check_usage(o.files.empty() && !o.context && !o.stride, "eval", "objective ", recipe.train.objective.type,
              " is measured on the run's held-out text alone");
  std::optional<TrainingData> read;
  in_turns([&] { read.emplace(load_training_data(recipe, {loaded.tokenizer, loaded.source_tokenizer})); });
  const TrainingData& data = *read;
  check_usage(data.held_out != nullptr, "eval", "the run has no held-out text");
  const auto total = evaluate(*loaded.model, *data.objective, data.held_out->batches());
  if (!total) return 128 + stop_signal();
  if (!speaks_for_job()) return 0;
  const double loss = total->mean_nll();
  check_finite_result("eval", "the loss", loss);
  if (o.json) {
    Json json = {{"loss", loss}, {"labels", total->labels}, {"objective", recipe.train.objective.type}};
    weights_used(o).add_to(json);
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  std::printf("loss              %.4f per label (%lld labels, objective %s)\n", loss,
              static_cast<long long>(total->labels), recipe.train.objective.type.c_str());
  print_weights(o);
  return 0;
}

}  // namespace lithe
