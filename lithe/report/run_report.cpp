#include "lithe/report/run_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "lithe/base/error.h"
#include "lithe/report/page.h"
#include "lithe/report/part_statistics.h"
#include "lithe/report/run_record.h"

namespace lithe::report {
namespace {

constexpr double kSmoothing = 0.015;
constexpr size_t kSampleSteps = 24;  // more are thinned evenly
constexpr size_t kSamplesPerStep = 16;
constexpr int64_t kSampleLength = 4000;  // code points

std::string number_or_dash(double value, int digits = 4) {
  return std::isnan(value) ? "–" : format_number(value, digits);
}

// Whole numbers in full, also when a damaged file holds one that no integer can.
std::string integer_text(double value) {
  return std::abs(value) < 1e18 ? format_integer(int64_t(value)) : format_number(value);
}

Cell integer_cell(double value) {
  Cell cell(std::isnan(value) ? "–" : integer_text(value));
  cell.key = value;
  return cell;
}

std::string at_step(double step) { return "step " + integer_text(step); }

// The middle value of the finite ones; NaN of none.
double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double last_finite(const std::vector<double>& values) {
  for (size_t i = values.size(); i-- > 0;)
    if (std::isfinite(values[i])) return values[i];
  return std::nan("");
}

bool any_finite(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

const Evaluation* best_evaluation(const RunRecord& run) {
  const Evaluation* best = nullptr;
  for (const Evaluation& evaluation : run.evaluations)
    if (std::isfinite(evaluation.loss) &&
        (!best || (evaluation.metrics.empty() ? evaluation.loss < best->loss : evaluation.best)))
      best = &evaluation;
  return best;
}

// Seconds of training. The result of a run in progress or one that failed may not know them: the speed lines do, whose
// clock may start again on resume.
double elapsed(const RunRecord& run) {
  double total = 0, previous = 0;
  for (const double seconds : run.speed.elapsed_seconds) {
    if (!std::isfinite(seconds)) continue;
    total += seconds >= previous ? seconds - previous : seconds;
    previous = seconds;
  }
  if (run.result && std::isfinite(run.result->seconds)) total = std::max(total, run.result->seconds);
  return total > 0 ? total : std::nan("");
}

// The last step that any record knows of; NaN of none.
double last_step(const RunRecord& run) {
  double step = run.training.step.empty() ? std::nan("") : run.training.step.back();
  if (!run.evaluations.empty()) step = std::fmax(step, run.evaluations.back().step);
  return run.result ? std::fmax(step, run.result->steps) : step;
}

Tile status_tile(const RunRecord& run) {
  const double step = last_step(run);
  const std::string detail = std::isfinite(step) ? at_step(step) : "";
  if (!run.result || run.result->status.empty()) return {"Status", "unknown", detail, Tone::plain};
  const std::string& status = run.result->status;
  const Tone tone = status == "finished"   ? Tone::good
                    : status == "diverged" ? Tone::bad
                    : status == "stopped"  ? Tone::caution
                                           : Tone::plain;
  return {"Status", status, detail, tone};
}

void headline(Page& page, const RunRecord& run) {
  std::vector<Tile> tiles = {status_tile(run)};
  if (const Evaluation* best = best_evaluation(run)) {
    tiles.push_back({best->metrics.empty() ? "Best validation loss" : "Validation loss of the best",
                     format_number(best->loss), at_step(best->step)});
    const bool has_bits = std::isfinite(best->bits_per_byte);
    if (std::isfinite(best->perplexity))
      tiles.push_back({"Best perplexity", format_number(best->perplexity),
                       has_bits ? format_number(best->bits_per_byte) + " bits per byte" : ""});
    for (const auto& [name, value] : best->metrics)
      tiles.push_back({name + " of the best", number_or_dash(value), at_step(best->step)});
    const Evaluation& last = run.evaluations.back();
    tiles.push_back({"Final validation loss", number_or_dash(last.loss),
                     std::isfinite(last.perplexity) ? "perplexity " + number_or_dash(last.perplexity) : "",
                     std::isfinite(last.loss) ? Tone::plain : Tone::bad});
  } else {
    double loss = last_finite(run.training.loss);
    if (run.result && !std::isfinite(loss)) loss = run.result->final_loss;
    if (std::isfinite(loss)) tiles.push_back({"Final training loss", format_number(loss), "no validation in this run"});
  }
  if (run.parameters)
    tiles.push_back({"Parameters", format(*run.parameters, Quantity::count), integer_text(*run.parameters)});
  const double tokens = last_finite(run.training.tokens), epoch = last_finite(run.training.epoch);
  if (std::isfinite(tokens))
    tiles.push_back({"Tokens seen", format(tokens, Quantity::count),
                     std::isfinite(epoch) ? format_number(epoch, 3) + " epochs" : ""});
  const double speed = median(run.speed.tokens_per_second);
  if (std::isfinite(speed)) {
    const double seconds = median(run.speed.step_seconds);
    tiles.push_back({"Tokens per second", format_number(std::round(speed), 6),
                     std::isfinite(seconds) ? "median; " + format(seconds, Quantity::seconds) + " a step" : "median"});
  }
  if (!run.spikes.empty())
    tiles.push_back({"Loss spikes", format_integer(int64_t(run.spikes.size())), "taken back, their batches left out",
                     Tone::caution});
  const auto& ledger = run.measured ? run.measured : run.planned;
  if (ledger && std::isfinite(ledger->peak))
    tiles.push_back(
        {"Peak memory", format(ledger->peak, Quantity::bytes), run.measured ? "measured" : "planned, not measured"});
  const double seconds = elapsed(run);
  if (std::isfinite(seconds)) tiles.push_back({"Duration", format(seconds, Quantity::seconds), ""});
  page.tiles(tiles);
}

void notices(Page& page, const RunRecord& run) {
  if (run.result && !run.result->message.empty()) {
    const std::string& status = run.result->status;
    page.notice(status == "diverged"   ? Tone::bad
                : status == "finished" ? Tone::good
                                       : Tone::caution,
                run.result->message);
  }
  if (!run.damaged.empty())
    page.notice(Tone::bad, "Some records of this run are damaged. The page shows the rest.", run.damaged);
  if (!run.missing.empty()) {
    std::string files;
    for (const std::string& file : run.missing) files += (files.empty() ? "" : ", ") + file;
    page.notice(Tone::plain, "Not recorded in this directory", {files});
  }
}

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
    const auto number = [](double value) { return std::isnan(value) ? Cell("–") : Cell(value, Quantity::number, 4); };
    std::vector<Cell> row{integer_cell(evaluation.step), Cell(evaluation.loss, Quantity::number, 4),
                          number(evaluation.perplexity), number(evaluation.bits_per_byte)};
    for (const auto& [name, value] : run.evaluations.back().metrics) {
      const auto same = std::find_if(evaluation.metrics.begin(), evaluation.metrics.end(),
                                     [&, &key = name](const auto& m) { return m.first == key; });
      row.push_back(same == evaluation.metrics.end() ? Cell("–") : number(same->second));
    }
    row.push_back(Cell(evaluation.best ? "best" : ""));
    table.rows.push_back(std::move(row));
  }
  page.collapsible(
      "All evaluations", [&] { page.table(table); }, false,
      cat(format_integer(int64_t(run.evaluations.size())), " in this run"));
}

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

// What the model wrote; samples whose text repeats the prompt are shown without the repetition.
std::string continuation(const Sample& sample) {
  return sample.text.starts_with(sample.prompt) ? sample.text.substr(sample.prompt.size()) : sample.text;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return cut(clean_text(text), 90);
}

void samples(Page& page, const RunRecord& run) {
  if (run.samples.empty()) return;
  page.section("Samples");
  std::map<int64_t, std::vector<const Sample*>> by_step;
  for (const Sample& sample : run.samples) by_step[sample.step].push_back(&sample);
  std::vector<int64_t> steps;
  for (const auto& [step, all] : by_step) steps.push_back(step);
  std::reverse(steps.begin(), steps.end());
  std::set<size_t> shown;  // the last, the first, and evenly spaced ones between
  for (size_t i = 0; i < std::min(kSampleSteps, steps.size()); ++i)
    shown.insert(steps.size() <= kSampleSteps ? i : i * (steps.size() - 1) / (kSampleSteps - 1));
  page.paragraph(shown.size() == steps.size()
                     ? "What the model wrote, the latest first. Open earlier steps to see how it got there."
                     : cat("What the model wrote, the latest first: ", shown.size(), " of ",
                           format_integer(int64_t(steps.size())),
                           " steps with samples. All of them are in samples.jsonl."));
  for (const size_t i : shown) {
    const auto& all = by_step[steps[i]];
    std::string title = "Step " + format_integer(steps[i]);
    const auto at = std::find_if(run.evaluations.begin(), run.evaluations.end(),
                                 [&](const Evaluation& e) { return e.step == double(steps[i]); });
    if (at != run.evaluations.end()) title += ", validation loss " + number_or_dash(at->loss);
    page.collapsible(
        title,
        [&] {
          for (size_t s = 0; s < std::min(all.size(), kSamplesPerStep); ++s)
            page.sample(cut(clean_text(all[s]->prompt), kSampleLength),
                        cut(clean_text(continuation(*all[s])), kSampleLength));
          if (all.size() > kSamplesPerStep)
            page.paragraph(cat(all.size() - kSamplesPerStep, " more in samples.jsonl."));
        },
        i == 0, i == 0 ? "" : one_line(continuation(*all[0])));
  }
}

void background(Page& page, const RunRecord& run) {
  if (run.recipe.empty() && run.environment.empty()) return;
  page.section("How it was made");
  if (!run.recipe.empty())
    page.collapsible(
        "Recipe", [&] { page.preformatted(run.recipe, "resolved recipe"); }, false,
        "resolved_recipe.yaml, with every default");
  if (!run.environment.empty())
    page.collapsible("Environment", [&] {
      Table table{"Environment", {{"Name"}, {"Value"}}, {}, {}};
      for (const auto& [name, value] : run.environment) table.rows.push_back({name, value});
      page.table(table);
    });
}

std::string title_of(const Path& directory) {
  const Path whole = std::filesystem::absolute(directory).lexically_normal();
  const std::string name =
      whole.filename().empty() ? whole.parent_path().filename().string() : whole.filename().string();
  return name.empty() ? "run" : name;
}

std::string subtitle_of(const RunRecord& run) {
  std::string text;
  for (const char* wanted : {"version", "commit", "cpu", "isa", "instruction set", "threads"})
    for (const auto& [name, value] : run.environment)
      if (name == wanted && !value.empty())
        text += (text.empty() ? "" : " · ") + (name == "version"   ? "lithe " + value
                                               : name == "threads" ? value + " threads"
                                                                   : cut(clean_text(value), 60));
  return text;
}

std::string page_of(const RunRecord& run, const Path& directory) {
  Page page(title_of(directory), subtitle_of(run), "Training run");
  headline(page, run);
  notices(page, run);
  learning(page, run);
  by_position(page, run);
  part_statistics(page, run.statistics);
  memory(page, run);
  samples(page, run);
  cost(page, run);
  background(page, run);
  return page.html();
}

}  // namespace
}  // namespace lithe::report

namespace lithe {

std::string run_report(const Path& run_directory) {
  return report::page_of(report::read_run_record(run_directory), run_directory);
}

void write_run_report(const Path& run_directory) {
  write_file(run_directory / "report.html", run_report(run_directory));
}

}  // namespace lithe
