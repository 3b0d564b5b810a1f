#include "lithe/cli/task_report.h"

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

}  // namespace

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

}  // namespace lithe
