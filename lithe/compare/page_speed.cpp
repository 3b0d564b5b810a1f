#include "lithe/base/counted.h"
#include "lithe/base/error.h"
#include "lithe/compare/fronts.h"
#include "lithe/compare/page_parts.h"

namespace lithe::compare {
namespace {

using report::format_number;
using report::IntervalChart;
using report::LineChart;
using report::Page;
using report::Quantity;
using report::Series;
using report::Table;

void speed_table(Page& page, const Comparison& c) {
  const Speed& s = c.speed;
  Table table{"Every cell of the grid",
              {{"Variant"},
               {"Prompt", true},
               {"Batch", true},
               {"Prefill", true},
               {"quartiles"},
               {"Decode tokens/s", true},
               {"quartiles"},
               {"State", true},
               {"Peak memory", true},
               {"FLOPs a token", true}},
              {},
              {}};
  for (size_t k = 0; k < s.cells.size(); ++k)
    for (size_t v = 0; v < c.variants.size(); ++v) {
      const compare::Cell& cell = s.cells[k];
      const CellCost& cost = s.costs[v][k];
      std::vector<report::Cell> row{c.name(v), report::Cell::integer(cell.prompt), report::Cell::integer(cell.batch)};
      if (!cost.refused.empty()) {
        for (const std::string& text : {std::string("–"), cost.refused, std::string("–"), std::string(),
                                        std::string("–"), std::string("–"), std::string("–")})
          row.push_back(text);
      } else {
        const auto prefill = s.spread(v, "prefill", int64_t(k)), decode = s.spread(v, "decode", int64_t(k));
        const double batch = double(cell.batch);
        row.push_back(quantity_cell(prefill.median, Quantity::seconds));
        row.push_back(report::format(prefill.low, Quantity::seconds) + " – " +
                      report::format(prefill.high, Quantity::seconds));
        row.push_back(number_cell(batch / decode.median));
        row.push_back(format_number(batch / decode.high, 3) + " – " + format_number(batch / decode.low, 3));
        row.push_back(quantity_cell(double(cost.state_bytes), Quantity::bytes));
        row.push_back(quantity_cell(double(cost.peak_bytes), Quantity::bytes));
        row.push_back(quantity_cell(cost.decode_flops / batch, Quantity::count));
      }
      table.rows.push_back(std::move(row));
    }
  page.table(table);
}

}  // namespace

void add_speed(Page& page, const Comparison& c) {
  const Speed& s = c.speed;
  if (!s.measured()) return;
  page.section("Speed");
  const std::vector<size_t> shown = shown_in_lines(c);
  page.paragraph(
      cat("Medians of ", counted(int64_t(s.rounds.size()), "round"), " in which the variants take turns. ",
          c.name(c.baseline),
          " is measured twice in every round: no difference smaller than that between it and itself is called one."));
  const auto lines = [&](const std::string& title, const std::string& label, int64_t batch, const char* what,
                         auto&& of) {
    LineChart chart;
    chart.title = title;
    chart.detail = batch == 1 ? "one sequence" : cat(batch, " sequences at once");
    chart.x = {"tokens of the prompt", Quantity::number, true};
    chart.y = {label, Quantity::number, true};
    chart.height = 300;
    for (const size_t v : shown) {
      Series series{c.name(v), {}, {}};
      series.dots = true;
      for (size_t k = 0; k < s.cells.size(); ++k) {
        if (s.cells[k].batch != batch || !s.costs[v][k].refused.empty()) continue;
        series.x.push_back(double(s.cells[k].prompt));
        series.y.push_back(of(s.cells[k], s.spread(v, what, int64_t(k)).median));
      }
      chart.series.push_back(std::move(series));
    }
    return chart;
  };
  for (int64_t batch : s.cells.empty() ? std::vector<int64_t>() : c.experiment.measure.batch_sizes)
    page.charts(lines("Decoding behind a prompt", "tokens per second", batch, "decode",
                      [](const compare::Cell& cell, double seconds) { return double(cell.batch) / seconds; }),
                lines("Reading a prompt", "milliseconds", batch, "prefill",
                      [](const compare::Cell&, double seconds) { return 1e3 * seconds; }));
  IntervalChart ratios;
  ratios.title = "Time relative to " + c.name(c.baseline);
  ratios.detail = cat(format_number(100 * c.experiment.confidence, 4),
                      " % intervals over the rounds; coloured: differences beyond the noise.");
  ratios.x = {"ratio of times", Quantity::number, true};
  ratios.origin = 1;
  ratios.below = "faster";
  ratios.above = "slower";
  const int64_t shortest = 0, longest = int64_t(s.cells.size()) - 1;
  for (const SpeedDifference& d : c.speeds) {
    const bool of_cell = d.cell >= 0 && d.what != "translation";
    if (of_cell && d.cell != shortest && d.cell != longest) continue;
    const std::string what =
        of_cell      ? cat(d.what, ", ", s.cells[size_t(d.cell)].prompt, " x ", s.cells[size_t(d.cell)].batch)
        : d.cell < 0 ? d.what
                     : search_name(s.searches[size_t(d.cell)]);
    ratios.rows.push_back({c.name(d.a) + ", " + what, d.ratio, d.low, d.high, d.beyond});
  }
  if (!ratios.rows.empty()) page.chart(ratios);
  c.translates() ? add_translation_speed(page, c) : speed_table(page, c);
}

void add_memory(Page& page, const Comparison& c) {
  page.section("Memory");
  const std::vector<size_t> shown = shown_in_lines(c);
  LineChart chart;
  chart.title = "Bytes kept for one sequence";
  chart.detail = "By the formula of each part; variants with equal states lie on one line.";
  chart.x = {c.translates() ? "tokens of the source and of the translation" : "tokens so far", Quantity::number, true};
  chart.y = {"bytes", Quantity::bytes, true};
  std::string without;
  for (const size_t v : shown) {
    const VariantResult& r = c.variants[v];
    if (r.cache_bytes.back() == 0) {
      without += (without.empty() ? " Without a state: " : ", ") + r.variant.name;
      continue;
    }
    Series series{r.variant.name, {}, r.cache_bytes};
    for (int64_t n : c.cache_lengths) series.x.push_back(double(n));
    chart.series.push_back(std::move(series));
  }
  if (!without.empty()) chart.detail += without + ".";
  const Speed& speed = c.speed;
  if (speed.cells.empty()) {
    page.chart(chart);
    if (c.translates()) add_translation_memory(page, c);
    return;
  }
  LineChart peak;
  const int64_t batch = c.experiment.measure.batch_sizes.back();
  peak.title = "Memory while generating";
  peak.detail = cat("Weights, state and rows at the peak, ", counted(batch, "sequence"), " at once.");
  peak.x = {"tokens of the prompt", Quantity::number, true};
  peak.y = {"bytes", Quantity::bytes, true};
  for (const size_t v : shown) {
    Series series{c.name(v), {}, {}};
    series.dots = true;
    for (size_t k = 0; k < speed.cells.size(); ++k)
      if (speed.cells[k].batch == batch && speed.costs[v][k].refused.empty()) {
        series.x.push_back(double(speed.cells[k].prompt));
        series.y.push_back(double(speed.costs[v][k].peak_bytes));
      }
    peak.series.push_back(std::move(series));
  }
  page.charts(chart, peak);
}

}  // namespace lithe::compare
