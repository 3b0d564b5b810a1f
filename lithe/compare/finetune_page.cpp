// The tables of a fine-tuning, as text and as a page, in the layout of TH Tables 2.1-2.3.
#include <algorithm>
#include <cmath>

#include "lithe/compare/finetune.h"
#include "lithe/compare/statistics.h"
#include "lithe/report/page.h"
#include "lithe/report/run_sections.h"

namespace lithe::compare {
namespace {

std::string shown(double value, const char* pattern) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return std::isfinite(value) ? std::string(text) : std::string("-");
}

std::string shown(const std::optional<Ratio>& r) {
  return r ? shown(r->value, "%.2f") + " (" + shown(r->low, "%.2f") + " to " + shown(r->high, "%.2f") + ")" : "-";
}

struct Row {
  std::vector<std::string> cells;
};
struct Grid {
  std::vector<std::string> head;
  std::vector<Row> rows;
};

// Scores in percent with their deviation over the seeds.
Grid quality(const Finetuning& r) {
  Grid grid{.head = {"model"}};
  for (size_t t = 0; t < r.tasks.size(); ++t)
    for (const std::string& metric : r.metrics[t]) grid.head.push_back(r.tasks[t] + " " + metric);
  grid.head.insert(grid.head.end(), {"average", "PRR %"});
  std::vector<std::string> trivial;  // in the order in which tasks have them
  for (const auto& task : r.baselines)
    for (const auto& [name, scores] : task)
      if (std::find(trivial.begin(), trivial.end(), name) == trivial.end()) trivial.push_back(name);
  for (const std::string& name : trivial) {
    Row row{{name}};
    for (size_t t = 0; t < r.tasks.size(); ++t) {
      const auto found = std::find_if(r.baselines[t].begin(), r.baselines[t].end(),
                                      [&](const auto& baseline) { return baseline.first == name; });
      for (size_t i = 0; i < r.metrics[t].size(); ++i)
        row.cells.push_back(found == r.baselines[t].end() ? "-" : shown(100 * found->second[i], "%.1f"));
    }
    row.cells.insert(row.cells.end(), {"", ""});
    grid.rows.push_back(row);
  }
  for (const FinetunedModel& m : r.models) {
    Row row{{m.model.name}};
    for (size_t t = 0; t < r.tasks.size(); ++t)
      for (size_t i = 0; i < r.metrics[t].size(); ++i) {
        const bool any = !m.tasks[t].scores.empty();
        std::string cell = any ? shown(100 * m.tasks[t].mean(i), "%.1f") : "-";
        if (any && r.folds)
          cell += " +- " + shown(100 * paired(m.tasks[t].by_fold(i)).half_width(0.95), "%.1f");
        else if (any && m.tasks[t].scores.size() > 1)
          cell += " +- " + shown(100 * m.tasks[t].deviation(i), "%.1f");
        row.cells.push_back(cell);
      }
    row.cells.push_back(shown(100 * m.average, "%.1f"));
    row.cells.push_back(shown(m.prr, "%.1f"));
    grid.rows.push_back(row);
  }
  return grid;
}

Grid efficiency(const Finetuning& r) {
  Grid grid{.head = {"model", "parameters", "of embeddings", "PCR all %", "PCR embeddings %", "PoEP %", "ms a sample",
                     "times as fast"}};
  for (const FinetunedModel& m : r.models)
    if (m.parameters > 0)  // of a model that was not reached nothing is known
      grid.rows.push_back({{m.model.name, std::to_string(m.parameters), std::to_string(m.embedding_parameters),
                            shown(m.pcr_all, "%.1f"), shown(m.pcr_embeddings, "%.1f"), shown(m.poep, "%.1f"),
                            shown(1e3 * m.sample_seconds, "%.2f"), shown(m.speed_up)}});
  return grid;
}

std::string markdown(const Grid& grid) {
  std::string out = "|";
  for (const std::string& cell : grid.head) out += " " + cell + " |";
  out += "\n|";
  for (size_t i = 0; i < grid.head.size(); ++i) out += i == 0 ? " --- |" : " ---: |";
  for (const Row& row : grid.rows) {
    out += "\n|";
    for (const std::string& cell : row.cells) out += " " + cell + " |";
  }
  return out + "\n";
}

report::Table table(const Grid& grid, const std::string& caption) {
  report::Table out{.caption = caption};
  for (size_t i = 0; i < grid.head.size(); ++i) out.columns.push_back({grid.head[i], i > 0});
  for (const Row& row : grid.rows) out.rows.emplace_back(row.cells.begin(), row.cells.end());
  return out;
}

// The first metric of a task, of every model and trivial method.
report::BarChart scores_chart(const Finetuning& r, size_t task) {
  report::BarChart chart{.title = r.tasks[task] + ", " + r.metrics[task][0]};
  chart.series = {r.metrics[task][0]};
  const auto add = [&](const std::string& name, double value) {
    if (std::isfinite(value) && value >= 0) chart.bars.push_back({.label = name, .values = {value}});
  };
  for (const auto& [name, scores] : r.baselines[task]) add(name, scores[0]);
  for (const FinetunedModel& m : r.models)
    if (!m.tasks[task].scores.empty()) add(m.model.name, m.tasks[task].mean(0));
  return chart;
}

std::string about(const Finetuning& r) {
  std::string parts;
  for (size_t t = 0; t < r.tasks.size(); ++t)
    parts += (t ? ", " : "") + r.tasks[t] + (r.folds ? "" : " on its " + r.scored_on[t] + " part");
  const std::string over =
      r.folds ? "mean over " + std::to_string(r.folds) + " folds with the half length of its 95 % interval, "
              : "mean and deviation over ";
  return "Scores in percent, " + over + std::to_string(r.seeds.size()) +
         (r.seeds.size() == 1 ? " seed: " : " seeds: ") + parts + ". PRR, PCR and speed against " +
         r.models[0].model.name +
         "; speeds with 95 % intervals over rounds in which the models took turns: where 1 lies within, no difference "
         "is known." +
         (r.complete ? "" : " Stopped before it was complete.");
}

}  // namespace

std::string to_markdown(const Finetuning& r) {
  std::string out = "# Fine-tuning\n\n" + about(r) + "\n\n" + markdown(quality(r)) + "\n";
  for (const std::string& warning : warnings(r)) out += "Warning: " + warning + "\n";
  return out + "\n" + markdown(efficiency(r));
}

std::string to_page(const Finetuning& r) {
  report::Page page("Fine-tuning", about(r), "lithe finetune");
  if (const std::vector<std::string> all = warnings(r); !all.empty())
    page.notice(report::Tone::caution, "A trivial method is better than the model", all);
  page.section("Quality");
  page.table(table(quality(r), "the average is over the first metric of each task"));
  page.paragraph(
      "Each run's report.html has the scores by class, the confusion and the wrong answers; predictions.tsv "
      "beside it has every answer.");
  for (size_t t = 0; t < r.tasks.size(); ++t)
    if (const auto chart = scores_chart(r, t); !chart.bars.empty()) page.chart(chart);
  bool titled = false;
  for (const auto& [name, run] : r.runs) {
    const auto record = report::read_run_record(run).task;
    if (!record) continue;
    if (!titled) page.section("Answers");
    titled = true;
    page.collapsible(name, [&] { report::task_tables(page, *record); });
  }
  page.section("Cost");
  page.table(table(efficiency(r), "PCR: how many parameters are saved; PoEP: the share of the embeddings"));
  return page.html();
}

}  // namespace lithe::compare
