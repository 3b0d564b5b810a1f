#include "lithe/train/task_score.h"

#include <cstdio>
#include <filesystem>

#include "lithe/base/counted.h"
#include "lithe/base/stop.h"
#include "lithe/eval/finite_result.h"
#include "lithe/report/run_report.h"

namespace lithe {
namespace {

constexpr size_t kErrors = 200;  // on the page; the table has all

}  // namespace

std::string scored_weights(const Path& run, const Recipe& recipe) {
  const auto has = [&](const char* weights) { return std::filesystem::exists(run / weights / "model.safetensors"); };
  return has("best") ? "best" : recipe.train.ema_decay > 0 && has("averaged") ? "averaged" : "";
}

LoadedModel load_scored(const Path& run, const Recipe& recipe) {
  return load_model(run, scored_weights(run, recipe), recipe.train.precision == "f64" ? "f64" : "f32");
}

std::optional<TaskScore> score_task(const Path& run, const Recipe& recipe, const BaselineScores* baselines) {
  if (!recipe.has_task()) return std::nullopt;
  const TaskType type = task_type(recipe.task);
  if (type == TaskType::span || type == TaskType::transcription || type == TaskType::text) return std::nullopt;
  const TaskConfig& task = recipe.task;
  if (task.test.empty() && task.validation.empty() && !task.folds && task.validation_fraction == 0) return std::nullopt;
  const std::string weights = scored_weights(run, recipe);
  const LoadedModel loaded = load_scored(run, recipe);
  TaskScore out{.weights = weights.empty() ? "last" : weights, .labels = loaded.model->config().label_names};
  TaskData data = load_task(recipe.task, out.labels);
  out.part = data.test.empty() ? "validation" : "test";
  std::vector<Example>& asked = data.test.empty() ? data.validation : data.test;
  if (asked.empty()) return std::nullopt;
  const TaskBatches batches(std::move(asked), type, *loaded.tokenizer, recipe.data.sequence_length,
                            recipe.train.micro_batch_tokens(), 0, false, task_reading(recipe));
  const TaskAnswers answers = answer(*loaded.model, batches);
  if (stop_signal()) return std::nullopt;
  check_finite_result("train", "the loss", answers.loss);
  out.examples = batches.examples().size();
  out.loss = answers.loss;
  out.report = task_report(
      recipe.task, answers.predictions, batches.examples(),
      baselines ? *baselines : baseline_scores(recipe.task, batches.examples(), data.train, out.labels), out.labels);
  out.warnings = task_warnings(out.report);
  Json json = task_score_json(out);
  if (type == TaskType::classification) json["errors"] = task_errors(answers, batches.examples(), out.labels, kErrors);
  if (const std::string table = predictions_table(type, answers, batches.examples(), out.labels); !table.empty()) {
    write_file(run / "predictions.tsv", table);
    json["predictions"] = "predictions.tsv";
  }
  write_file(run / "task_report.json", dump(json, 2, Invalid::replaced) + "\n");
  write_run_report(run);
  return out;
}

Json task_score_json(const TaskScore& score) {
  Json json = {{"part", score.part}, {"weights", score.weights}, {"examples", score.examples}, {"loss", score.loss}};
  Json names = Json::array();
  for (const Score& s : score.report.scores) names.push_back(s.metric.name);
  json["metrics"] = names;
  add_task_report(score.report, score.labels, json);
  json["warnings"] = score.warnings;
  return json;
}

std::string task_score_text(const TaskScore& score, const Path& run) {
  std::string out = cat("\n", score.part, " part, ", counted(int64_t(score.examples), "example"), ", ", score.weights,
                        " weights\n", task_report_text(score.report, score.labels));
  if (std::filesystem::exists(run / "predictions.tsv"))
    out += cat("predictions ", (run / "predictions.tsv").string(), "\n");
  return out;
}

}  // namespace lithe
