#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/report/run_sections.h"

namespace lithe::report {
void memory(Page& page, const RunRecord& run) {
  if (!run.planned && !run.measured) return;
  page.section("Memory");
  BarChart chart;
  chart.title = "Memory at the peak, by ledger class";
  chart.marker_name = "peak";
  chart.quantity = Quantity::bytes;
  chart.stacked = true;
  chart.series = MemoryLedger::class_names();
  Table table{"Memory by class", {{"Class"}, {"Planned", true}, {"Measured", true}, {"Difference", true}}, {}, {}};
  const auto cell = [](double bytes) { return std::isnan(bytes) ? Cell("–") : Cell(bytes, Quantity::bytes, 4); };
  const auto row = [&](const std::string& name, double planned, double measured) {
    table.rows.push_back({name, cell(planned), cell(measured), cell(measured - planned)});
  };
  for (const auto& [name, ledger] : {std::pair("planned", &run.planned), std::pair("measured", &run.measured)}) {
    if (!*ledger) continue;
    Bar bar{name, (*ledger)->classes, {}};
    for (double& value : bar.values)
      if (std::isnan(value)) value = 0;
    // Where the classes are given at the moment of the peak, their sum says it already.
    const double sum = std::accumulate(bar.values.begin(), bar.values.end(), 0.0), peak = (*ledger)->peak;
    if (std::abs(peak - sum) > 1e-3 * sum) {
      bar.marker = peak;
      chart.title = "Memory by ledger class";
      chart.detail = "The classes do not add up to the peak, as when each is given at its own highest moment.";
    }
    chart.bars.push_back(bar);
  }
  const MemoryLedger none{std::vector<double>(chart.series.size(), std::nan("")), std::nan("")};
  const MemoryLedger& planned = run.planned ? *run.planned : none;
  const MemoryLedger& measured = run.measured ? *run.measured : none;
  for (size_t c = 0; c < chart.series.size(); ++c) row(chart.series[c], planned.classes[c], measured.classes[c]);
  row("peak", planned.peak, measured.peak);
  table.total = table.rows.back();
  table.rows.pop_back();
  page.chart(chart);
  page.table(table);
}

void cost(Page& page, const RunRecord& run) {
  if (run.parts.empty()) return;
  page.section("Cost by part");
  Table table{"Cost of each part by itself", {{"Part"}}, {}, {"all parts"}};
  for (const PartCost& part : run.parts) table.rows.push_back({part.part});
  for (size_t k = 0; k < PartCost::kinds().size(); ++k) {
    const CostKind& kind = PartCost::kinds()[k];
    const auto given = [&](const PartCost& part) { return std::isfinite(part.costs[k]); };
    if (std::none_of(run.parts.begin(), run.parts.end(), given)) continue;
    double sum = 0;
    for (const PartCost& part : run.parts) sum += given(part) ? part.costs[k] : 0;
    const auto cell = [&](double value) {
      if (std::isnan(value)) return Cell("–");
      return kind.quantity == Quantity::number ? integer_cell(value) : Cell(value, kind.quantity, 4);
    };
    table.columns.push_back({kind.title, true});
    if (kind.share) table.columns.push_back({"Share", true});
    for (size_t i = 0; i < run.parts.size(); ++i) {
      const PartCost& part = run.parts[i];
      table.rows[i].push_back(cell(part.costs[k]));
      if (kind.share) table.rows[i].push_back(given(part) && sum > 0 ? Cell::share(part.costs[k] / sum) : Cell("–"));
    }
    table.total.push_back(cell(sum));
    if (kind.share) table.total.push_back("");
  }
  page.table(table);
}

}  // namespace lithe::report
