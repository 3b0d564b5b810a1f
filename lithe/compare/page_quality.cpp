#include <cmath>
#include <map>

#include "lithe/base/error.h"
#include "lithe/compare/fronts.h"
#include "lithe/compare/page_parts.h"
#include "lithe/report/run_record.h"

namespace lithe::compare {
namespace {

using report::BarChart;
using report::Evaluation;
using report::format_integer;
using report::format_number;
using report::IntervalChart;
using report::LineChart;
using report::Page;
using report::Quantity;
using report::Series;
using report::Table;

void overview_table(Page& page, const Comparison& c) {
  Table table{"All variants; click a heading to sort",
              {{"Variant"},
               {"Loss", true},
               {score_name(c.experiment.score), true},
               {"PRR %", true},
               {"PEoP", true},
               {"Parameters", true},
               {"Memory", true},
               {"Tokens/s", true},
               {"State at " + format_integer(c.cache_lengths[kStateShown]), true}},
              {},
              {}};
  for (size_t v = 0; v < c.variants.size(); ++v) {
    const VariantResult& r = c.variants[v];
    const double tokens = double(r.variant.tokens());
    table.rows.push_back({name_in_table(c, v), with_deviation(r.loss, r.loss_deviation, r.finished()),
                          with_deviation(r.score, r.score_deviation, r.finished()), number_cell(r.prr, 4),
                          number_cell(c.peop_of(r), 3), report::Cell::integer(r.variant.plan.parameters),
                          quantity_cell(peak_of(r), Quantity::bytes),
                          number_cell(std::round(tokens / training_seconds(c, v)), 6),
                          quantity_cell(r.cache_bytes[kStateShown], Quantity::bytes)});
  }
  page.table(table);
}

BarChart retention(const Comparison& c) {
  BarChart kept;
  kept.title = "Quality kept";
  kept.detail = "PRR: percent of " + c.name(c.baseline) + ", by " + score_name(c.experiment.score) + ".";
  kept.series = {""};
  for (const VariantResult& r : c.variants)
    if (std::isfinite(r.prr)) kept.bars.push_back({r.variant.name, {r.prr}, {}});
  return kept;
}

}  // namespace

void add_quality(Page& page, const Comparison& c) {
  page.section("Quality");
  IntervalChart chart;
  const std::string level = format_number(100 * c.experiment.confidence, 4) + " %";
  chart.title = "Loss relative to " + c.name(c.baseline);
  chart.detail =
      cat(level, " intervals",
          c.experiment.seeds.size() > 1 ? " over seeds and text" : " over the text; one seed says nothing about others",
          "; coloured: differences beyond the noise.");
  chart.x.label = "difference in loss (nats per token)";
  chart.below = "better";
  chart.above = "worse";
  for (size_t v : c.ranking)
    for (const LossDifference& d : c.losses) {
      if (v == c.baseline || !((d.a == v && d.b == c.baseline) || (d.b == v && d.a == c.baseline))) continue;
      const double value = d.a == v ? d.both.value : -d.both.value, half = d.both.half_width(c.experiment.confidence);
      chart.rows.push_back({c.name(v), value, value - half, value + half, d.beyond});
    }
  if (!chart.rows.empty()) page.chart(chart);
  page.chart(retention(c));
  overview_table(page, c);
  page.paragraph(cat("Loss is in nats per token on ", c.held_out,
                     "; ± is one standard deviation over the seeds. PRR is what "
                     "is kept of the quality of ",
                     c.name(c.baseline), ", PEoP the relative gain in quality over ", c.name(c.peop_baseline),
                     " for the relative growth in parameters", c.peop_by_mixers() ? " of the mixers" : "",
                     ". Memory is the peak of training, state what decoding keeps for one sequence", state_place(c),
                     "."));
}

void add_learning(Page& page, const Comparison& c) {
  LineChart steps, time;
  steps.title = "Held-out loss while training";
  steps.x = {"step"};
  time.title = "Held-out loss against time";
  time.x = {"seconds of training, as timed", Quantity::number};
  steps.y.label = time.y.label = "loss (nats per token)";
  for (const size_t v : shown_in_lines(c)) {
    std::map<double, std::vector<double>> by_step;
    for (const Outcome& run : c.variants[v].runs) {
      try {
        for (const Evaluation& e : report::read_run_record(run.directory).evaluations)
          by_step[e.step].push_back(e.loss);
      } catch (const Error&) {
        // A run without records has no curve.
      }
    }
    Series series{c.name(v), {}, {}};
    for (const auto& [step, losses] : by_step) {
      series.x.push_back(step);
      series.y.push_back(mean(losses));
    }
    series.dots = series.x.size() < 12;
    if (series.x.size() < 2) continue;
    steps.series.push_back(series);
    const double per_step = training_seconds(c, v) / double(c.variants[v].variant.steps);
    for (double& x : series.x) x *= per_step;
    time.series.push_back(std::move(series));
  }
  if (steps.series.empty()) return;
  page.section("Learning");
  if (std::isfinite(time.series[0].x.back()))
    page.charts(steps, time);
  else
    page.chart(steps);
}

}  // namespace lithe::compare
