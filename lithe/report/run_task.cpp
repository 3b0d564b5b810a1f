#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/report/run_sections.h"

namespace lithe::report {
namespace {

constexpr size_t kMostInMap = 40;  // classes that a map of the confusion can show
constexpr size_t kLongestText = 240;

void scores_table(Page& page, const TaskRecord& task) {
  Table table{"Scores", {{"Method"}}, {}, {}};
  for (const std::string& metric : task.metrics) table.columns.push_back({metric, true});
  for (const auto& [method, values] : task.scores) {
    std::vector<Cell> row{method};
    for (const double value : values) row.push_back(number_cell(value));
    table.rows.push_back(std::move(row));
  }
  page.table(table);
}

void classes_table(Page& page, const TaskRecord& task) {
  if (task.classes.empty()) return;
  Table table{"Classes", {{"Class"}, {"Precision", true}, {"Recall", true}, {"F1", true}, {"Examples", true}}, {}, {}};
  for (const TaskRecord::Class& c : task.classes)
    table.rows.push_back(
        {c.name, number_cell(c.precision), number_cell(c.recall), number_cell(c.f1), integer_cell(c.examples)});
  page.table(table);
}

void confusion_map(Page& page, const TaskRecord& task) {
  const size_t n = task.classes.size();
  const bool whole = std::ranges::all_of(task.classes, [&](const auto& c) { return c.taken_for.size() == n; });
  if (n < 2 || n > kMostInMap || !whole) return;
  HeatMap map;
  map.title = "Confusion";
  map.detail = "Of the examples of each class (row), the share that was taken for each class (column).";
  map.row_name = "class", map.column_name = "taken for";
  for (const TaskRecord::Class& c : task.classes) {
    map.rows.push_back(c.name), map.columns.push_back(c.name);
    double sum = 0;
    for (const double count : c.taken_for) sum += count;
    for (const double count : c.taken_for) map.values.push_back(sum > 0 ? count / sum : 0);
  }
  page.chart(map);
  Table table{"Examples of each class (row) by predicted class (column)", {{"Class"}}, {}, {}};
  for (const TaskRecord::Class& c : task.classes) table.columns.push_back({c.name, true});
  for (const TaskRecord::Class& c : task.classes) {
    std::vector<Cell> row{c.name};
    for (const double count : c.taken_for) row.push_back(integer_cell(count));
    table.rows.push_back(std::move(row));
  }
  page.collapsible("Confusion in numbers", [&] { page.table(table); });
}

void errors_table(Page& page, const TaskRecord& task) {
  if (task.errors.empty()) return;
  Table table{
      "Wrong answers, the surest first", {{"Text"}, {"Gold label"}, {"Predicted"}, {"Probability", true}}, {}, {}};
  for (const TaskRecord::WrongAnswer& e : task.errors)
    table.rows.push_back({cut(clean_text(e.text), kLongestText), e.label, e.predicted, number_cell(e.probability)});
  page.collapsible(
      "Wrong answers", [&] { page.table(table); }, false,
      cat(task.errors.size(), " shown; predictions.tsv has every example"));
}

}  // namespace

void task_tables(Page& page, const TaskRecord& of) {
  page.paragraph(cat(integer_text(of.examples), " examples of the ", of.part, " part, answered with the ", of.weights,
                     " weights of the run.",
                     of.part == "test" ? ""
                                       : " They also chose the best step, so that the scores are a little too good: "
                                         "name a test part in task.test, or take folds."));
  if (!of.warnings.empty())
    page.notice(Tone::caution, "A trivial method is better than this model on these examples", of.warnings);
  scores_table(page, of);
  classes_table(page, of);
  confusion_map(page, of);
  errors_table(page, of);
}

void task(Page& page, const RunRecord& run) {
  if (!run.task) return;
  page.section(run.task->part == "test" ? "Test examples" : "Validation examples");
  task_tables(page, *run.task);
}

}  // namespace lithe::report
