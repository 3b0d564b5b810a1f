#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/report/run_sections.h"

namespace lithe::report {
namespace {

constexpr double kSmoothing = 0.015;

// The points from `first` on.
Series part_of(const std::string& name, const std::vector<double>& x, const std::vector<double>& y, double first) {
  Series series;
  series.name = name;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] >= first) series.x.push_back(x[i]), series.y.push_back(y[i]);
  return series;
}

std::string spike_text(const LossSpike& spike) {
  return cat("loss spike at step ", integer_text(spike.step), ": ", number_or_dash(spike.loss), ", above ",
             number_or_dash(spike.limit), "; back to step ", integer_text(spike.back_to));
}

LineChart loss_chart(const RunRecord& run, double from_step) {
  LineChart chart;
  chart.x.label = "step";
  const bool tokens = run.evaluations.empty() || std::isfinite(run.evaluations.back().perplexity);
  chart.y.label = tokens ? "nats per token" : "loss per label";
  if (!run.training.step.empty()) {
    chart.series.push_back(part_of("training", run.training.step, run.training.loss, from_step));
    // The same neighbours in a part as in the whole, so that both end at the same value.
    if (const size_t part = chart.series.back().x.size())
      chart.series.back().smoothing = kSmoothing * double(run.training.step.size()) / double(part);
  }
  std::vector<double> steps, losses;
  for (const Evaluation& evaluation : run.evaluations)
    steps.push_back(evaluation.step), losses.push_back(evaluation.loss);
  if (!steps.empty()) {
    Series validation = part_of("validation", steps, losses, from_step);
    validation.dots = validation.x.size() <= 60;
    validation.label_min = true;
    chart.series.push_back(std::move(validation));
  }
  for (const LossSpike& spike : run.spikes)
    if (spike.back_to >= from_step || spike.step >= from_step)
      chart.events.push_back({spike.step, std::max(spike.back_to, from_step), spike_text(spike)});
  chart.event_name = chart.events.size() == 1 ? "loss spike, taken back" : "loss spikes, taken back";
  return chart;
}

// The metrics of a task over the evaluations.
LineChart score_chart(const RunRecord& run) {
  LineChart chart;
  chart.title = "Scores on the validation examples";
  chart.x.label = "step";
  chart.height = 270;
  for (const auto& [name, last] : run.evaluations.back().metrics) {
    Series series;
    series.name = name;
    for (const Evaluation& evaluation : run.evaluations)
      for (const auto& [own, value] : evaluation.metrics)
        if (own == name) series.x.push_back(evaluation.step), series.y.push_back(value);
    series.dots = series.x.size() <= 60;
    chart.series.push_back(std::move(series));
  }
  return chart;
}

LineChart simple_chart(const std::string& title, const std::string& unit, const std::vector<double>& steps,
                       const std::vector<double>& values) {
  LineChart chart;
  chart.title = title;
  chart.x.label = "step";
  chart.y.label = unit;
  chart.y.from_zero = true;
  chart.height = 250;
  chart.series = {{"", steps, values}};
  return chart;
}

void spikes_table(Page& page, const RunRecord& run) {
  if (run.spikes.empty()) return;
  Table table{"Loss spikes",
              {{"Step", true}, {"Loss", true}, {"Limit", true}, {"Back to step", true}, {"Left out: micro-batches"}},
              {},
              {}};
  for (const LossSpike& spike : run.spikes)
    table.rows.push_back({integer_cell(spike.step), Cell(spike.loss, Quantity::number, 4),
                          Cell(spike.limit, Quantity::number, 4), integer_cell(spike.back_to),
                          cat(integer_text(spike.first_batch), "–", integer_text(spike.last_batch))});
  page.paragraph(
      "Steps whose loss was above the limit, the mean of the losses before and so many of their deviations, were taken "
      "back: the run went on from its last checkpoint, without their batches.");
  page.table(table);
}

void evaluations_table(Page& page, const RunRecord& run) {
  if (run.evaluations.empty()) return;
  Table table{"Evaluations", {{"Step", true}, {"Loss", true}, {"Perplexity", true}, {"Bits per byte", true}}, {}, {}};
  for (const auto& [name, value] : run.evaluations.back().metrics) table.columns.push_back({name, true});
  table.columns.push_back({"Best so far"});
  for (const Evaluation& evaluation : run.evaluations) {
    std::vector<Cell> row{integer_cell(evaluation.step), Cell(evaluation.loss, Quantity::number, 4),
                          number_cell(evaluation.perplexity), number_cell(evaluation.bits_per_byte)};
    for (const auto& [name, value] : run.evaluations.back().metrics) {
      const auto same = std::find_if(evaluation.metrics.begin(), evaluation.metrics.end(),
                                     [&, &key = name](const auto& m) { return m.first == key; });
      row.push_back(same == evaluation.metrics.end() ? Cell("–") : number_cell(same->second));
    }
    row.push_back(Cell(evaluation.best ? "best" : ""));
    table.rows.push_back(std::move(row));
  }
  page.collapsible(
      "All evaluations", [&] { page.table(table); }, false,
      cat(format_integer(int64_t(run.evaluations.size())), " in this run"));
}

}  // namespace

void learning(Page& page, const RunRecord& run) {
  page.section("Learning");
  if (run.training.step.empty() && run.evaluations.empty()) {
    page.paragraph("There are no losses yet.");
    return;
  }
  LineChart loss = loss_chart(run, -std::numeric_limits<double>::infinity());
  loss.title = "Loss";
  if (kSmoothing * double(run.training.step.size()) >= 0.5)
    loss.detail = "The logged training loss, faint, under its moving average.";
  loss.height = 360;
  page.chart(loss);
  if (!run.evaluations.empty() && !run.evaluations.back().metrics.empty()) page.chart(score_chart(run));

  std::vector<Page::Figure> halves;
  const double first = run.training.step.empty() ? 0 : run.training.step.front(),
               last = run.training.step.empty() ? 0 : run.training.step.back();
  if (run.training.step.size() >= 20) {
    LineChart second_half = loss_chart(run, first + (last - first) / 2);
    second_half.title = "Loss, second half";
    second_half.height = 270;
    halves.push_back(Page::half_figure(second_half));
  }
  const TrainingCurve& curve = run.training;
  if (!curve.step.empty() && any_finite(curve.learning_rate))
    halves.push_back(Page::half_figure(simple_chart("Learning rate", "", curve.step, curve.learning_rate)));
  if (!curve.step.empty() && any_finite(curve.grad_norm)) {
    LineChart chart = simple_chart("Gradient norm", "before clipping", curve.step, curve.grad_norm);
    chart.series[0].smoothing = kSmoothing;
    halves.push_back(Page::half_figure(chart));
  }
  for (const auto& [name, auxiliary] : curve.auxiliary) {
    LineChart chart = simple_chart(name, "auxiliary loss, added to the objective's", auxiliary.step, auxiliary.loss);
    chart.series[0].smoothing = kSmoothing;
    halves.push_back(Page::half_figure(chart));
  }
  if (any_finite(run.speed.tokens_per_second)) {
    LineChart chart = simple_chart("Speed", "tokens per second", run.speed.step, run.speed.tokens_per_second);
    chart.series[0].smoothing = kSmoothing;
    halves.push_back(Page::half_figure(chart));
  }
  if (!halves.empty()) page.figures(halves);
  spikes_table(page, run);
  evaluations_table(page, run);
}

void by_position(Page& page, const RunRecord& run) {
  if (!run.by_position || run.by_position->position.empty()) return;
  page.section("Loss by position");
  LineChart chart;
  chart.title = "Loss by the number of tokens before";
  chart.detail =
      cat("Trained on sequences of ", integer_text(run.by_position->trained_length), " tokens, measured in windows of ",
          integer_text(run.by_position->context_length), " (lithe eval --by-position).");
  chart.x = {.label = "tokens before", .log = true};
  chart.y = {.label = "loss (nats per token)"};
  Series series{"", run.by_position->position, run.by_position->loss};
  series.dots = series.label_min = true;
  chart.series = {series};
  page.chart(chart);
}

}  // namespace lithe::report
