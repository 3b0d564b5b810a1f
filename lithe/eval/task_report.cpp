#include "lithe/eval/task_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lithe/base/error.h"
#include "lithe/base/log.h"

namespace lithe {
namespace {

constexpr size_t kWidest = 12;  // classes whose confusion is shown as text; the JSON has all

template <class... T>
std::string format(const char* how, T... values) {
  char text[512];
  std::snprintf(text, sizeof text, how, values...);
  return text;
}

// A cell of a table between tabs.
std::string cell(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

// Of the class that was predicted.
double probability(const TaskAnswers& answers, size_t i) {
  return answers.probabilities[i][size_t(answers.predictions[i].label)];
}

}  // namespace

BaselineScores baseline_scores(const TaskConfig& config, const std::vector<Example>& examples,
                               const std::vector<Example>& train, const std::vector<std::string>& labels) {
  const std::vector<TaskMetric> metrics = choose_metrics(config, labels).metrics;
  BaselineScores out;
  for (const TaskBaseline& b : task_baselines(task_type(config), train, examples, labels.size()))
    out.emplace_back(b.name, score_predictions(metrics, b.predictions, examples, labels));
  return out;
}

TaskReport task_report(const TaskConfig& config, const std::vector<Prediction>& predictions,
                       const std::vector<Example>& examples, BaselineScores baselines,
                       const std::vector<std::string>& labels) {
  const TaskType type = task_type(config);
  TaskReport report{.scores = score_predictions(choose_metrics(config, labels).metrics, predictions, examples, labels),
                    .baselines = std::move(baselines)};
  if (type == TaskType::classification || type == TaskType::tagging)
    report.confusion = confusion(type, examples, predictions, labels.size());
  return report;
}

std::vector<Example> training_examples(const TaskConfig& config, const std::vector<std::string>& labels) {
  TaskConfig only = config;  // with its validation_fraction: what that holds out is drawn the same way each time
  only.validation.clear();
  only.test.clear();
  if (only.train.empty()) return {};
  try {
    return load_task(only, labels).train;
  } catch (const Error& error) {
    log_warning("no baselines: the training examples cannot be read (", error.what(), ")");
    return {};
  }
}

std::vector<std::string> task_warnings(const TaskReport& report) {
  std::vector<std::string> out;
  if (report.scores.empty()) return out;
  const Score& own = report.scores[0];
  for (const auto& [name, scores] : report.baselines) {
    const double there = scores[0].value;
    const bool below = own.metric.better == Better::higher ? own.value < there : own.value > there;
    if (std::isnan(there) || !(below || std::isnan(own.value))) continue;
    out.push_back(cat("the model is worse than ", name, ": ", own.metric.name, format(" %.4f", own.value), ", and ",
                      name, " has", format(" %.4f", there)));
  }
  return out;
}

std::string task_report_text(const TaskReport& report, const std::vector<std::string>& labels) {
  std::string out;
  for (const Score& s : report.scores) {
    out += format("%-17s %.4f", s.metric.name.c_str(), s.value);
    std::string beside;
    for (const auto& [name, scores] : report.baselines)
      for (const Score& b : scores)
        if (b.metric.name == s.metric.name) beside += cat(beside.empty() ? "" : ", ", name, format(" %.4f", b.value));
    out += beside.empty() ? "\n" : cat(" (", beside, ")\n");
  }
  if (report.confusion.empty()) return out;
  const size_t classes = labels.size();
  const std::vector<ClassScore> of = class_scores(report.confusion, classes);
  out += format("\n%-20s %9s %9s %9s %9s\n", "class", "precision", "recall", "f1", "examples");
  for (size_t c = 0; c < classes; ++c)
    out += format("%-20s %9.4f %9.4f %9.4f %9lld\n", labels[c].c_str(), of[c].precision, of[c].recall, of[c].f1,
                  static_cast<long long>(of[c].examples));
  if (classes > kWidest) return out + "\n";
  out += format("\n%-20s", "truth \\ predicted");
  for (const std::string& label : labels) out += format(" %9.9s", label.c_str());
  out += "\n";
  for (size_t c = 0; c < classes; ++c) {
    out += format("%-20s", labels[c].c_str());
    for (size_t k = 0; k < classes; ++k)
      out += format(" %9lld", static_cast<long long>(report.confusion[c * classes + k]));
    out += "\n";
  }
  return out + "\n";
}

void add_task_report(const TaskReport& report, const std::vector<std::string>& labels, Json& json) {
  for (const Score& s : report.scores) json[s.metric.name] = finite_or_null(s.value);
  for (const auto& [name, scores] : report.baselines)
    for (const Score& s : scores) json["baselines"][name][s.metric.name] = finite_or_null(s.value);
  if (report.confusion.empty()) return;
  const std::vector<ClassScore> of = class_scores(report.confusion, labels.size());
  json["classes"] = Json::array();
  json["confusion"] = Json::array();  // rows: truth, columns: predictions
  for (size_t c = 0; c < labels.size(); ++c) {
    json["classes"].push_back({{"class", labels[c]},
                               {"precision", of[c].precision},
                               {"recall", of[c].recall},
                               {"f1", of[c].f1},
                               {"examples", of[c].examples}});
    const auto row = report.confusion.begin() + long(c * labels.size());
    json["confusion"].push_back(std::vector<int64_t>(row, row + long(labels.size())));
  }
}

std::string predictions_table(TaskType type, const TaskAnswers& answers, const std::vector<Example>& examples,
                              const std::vector<std::string>& labels) {
  const bool classes = type == TaskType::classification;
  if (!classes && type != TaskType::regression) return "";
  const bool pairs = std::ranges::any_of(examples, [](const Example& e) { return e.has_pair; });
  std::string out = cat("right\tlabel\tpredicted\tprobability\ttext", pairs ? "\ttext_pair\n" : "\n");
  for (size_t i = 0; i < examples.size(); ++i) {
    const Example& e = examples[i];
    const Prediction& p = answers.predictions[i];
    if (classes)
      out += cat(p.label == e.label ? "yes" : "no", "\t", cell(labels[size_t(e.label)]), "\t",
                 cell(labels[size_t(p.label)]), format("\t%.4f\t", probability(answers, i)));
    else
      out += format("\t%.6g\t%.6g\t\t", e.value, p.value);
    out += cell(e.text);
    if (pairs) out += "\t" + cell(e.pair);
    out += "\n";
  }
  return out;
}

Json task_errors(const TaskAnswers& answers, const std::vector<Example>& examples,
                 const std::vector<std::string>& labels, size_t most) {
  std::vector<size_t> wrong;
  for (size_t i = 0; i < examples.size(); ++i)
    if (answers.predictions[i].label != examples[i].label) wrong.push_back(i);
  std::ranges::stable_sort(wrong,
                           [&](size_t a, size_t b) { return probability(answers, a) > probability(answers, b); });
  wrong.resize(std::min(wrong.size(), most));
  Json out = Json::array();
  for (const size_t i : wrong)
    out.push_back({{"text", examples[i].has_pair ? examples[i].text + " | " + examples[i].pair : examples[i].text},
                   {"label", labels[size_t(examples[i].label)]},
                   {"predicted", labels[size_t(answers.predictions[i].label)]},
                   {"probability", probability(answers, i)}});
  return out;
}

}  // namespace lithe
