#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "lithe/base/error.h"
#include "lithe/compare/page_parts.h"
#include "lithe/report/run_record.h"

namespace lithe::compare {
namespace {

using report::Axis;
using report::Bar;
using report::BarChart;
using report::cut;
using report::Evaluation;
using report::format_integer;
using report::format_number;
using report::IntervalChart;
using report::LineChart;
using report::Page;
using report::Quantity;
using report::ScatterChart;
using report::Series;
using report::Table;
using report::Tile;
using report::Tone;

std::string plural(int64_t n, const std::string& word) { return cat(n, " ", word, n == 1 ? "" : "s"); }

report::Cell with_deviation(double value, double deviation, int64_t runs, int digits = 4) {
  report::Cell cell = number_cell(value, digits);
  if (std::isfinite(value) && runs > 1) cell.text += " ± " + format_number(deviation, 2);
  return cell;
}

// Seconds of the whole training by the interleaved timing, which other programs' load disturbs least.
double training_seconds(const Comparison& c, size_t v) {
  if (!c.speed.measured() || !c.experiment.measure.train_steps) return std::nan("");
  return c.speed.spread(v, "training", -1).median * double(c.variants[v].variant.steps);
}

double peak_of(const VariantResult& r) {
  return double(r.measured_peak() ? r.measured_peak() : r.variant.plan.memory.peak);
}

// The variants with the least of something that is exact, and that amount.
template <class F>
std::pair<std::vector<size_t>, double> least(const Comparison& c, F&& of) {
  std::pair<std::vector<size_t>, double> best{{}, std::numeric_limits<double>::infinity()};
  for (size_t v = 0; v < c.variants.size(); ++v) {
    if (of(v) < best.second) best = {{}, of(v)};
    if (of(v) == best.second) best.first.push_back(v);
  }
  return best;
}

// Where the decode state that tiles and tables name stands, and what it is.
constexpr size_t kStateShown = 4;
std::string state_place(const Comparison& c) {
  return cat(" at ", format_integer(c.cache_lengths[kStateShown]), " tokens", c.translates() ? " of either side" : "");
}

void headline(Page& page, const Comparison& c) {
  std::vector<Tile> tiles;
  if (c.winner)
    tiles.push_back({"Best on held-out text", c.name(*c.winner), "beyond the noise against all others", Tone::good});
  else
    tiles.push_back({"Best on held-out text", "no winner",
                     c.experiment.seeds.size() < 2 ? "one seed cannot tell" : "the top lies within the noise"});
  const auto exact = [&](const std::string& label, auto&& of, Quantity kind, const std::string& place) {
    const auto [best, amount] = least(c, of);
    if (best.size() == c.variants.size())
      return tiles.push_back({label, report::format(amount, kind), "in all variants" + place});
    std::string names;
    for (size_t v : best) names += (names.empty() ? "" : ", ") + c.name(v);
    std::string detail = report::format(amount, kind) + place;
    if (const double base = of(c.baseline); amount > 0 && base > amount)
      detail += "; " + c.name(c.baseline) + " has " + format_number(base / amount, 3) + " times as much";
    tiles.push_back({label, names, detail});
  };
  exact(
      "Fewest parameters", [&](size_t v) { return double(c.variants[v].variant.plan.parameters); }, Quantity::count,
      "");
  exact(
      "Smallest decode state",
      [&](size_t v) { return c.variants[v].cache_bytes.empty() ? 0 : c.variants[v].cache_bytes[kStateShown]; },
      Quantity::bytes, state_place(c));
  exact(
      "Least training memory", [&](size_t v) { return peak_of(c.variants[v]); }, Quantity::bytes, "");
  int64_t runs = 0, diverged = 0;
  for (const VariantResult& r : c.variants) runs += int64_t(r.runs.size()), diverged += r.diverged();
  tiles.push_back({"Trainings", format_integer(runs),
                   plural(int64_t(c.variants.size()), "variant") + ", " +
                       plural(int64_t(c.experiment.seeds.size()), "seed") +
                       (diverged ? cat("; ", diverged, " diverged") : ""),
                   diverged ? Tone::bad : Tone::plain});
  if (c.speed.measured())
    tiles.push_back(
        {"Noise of timing",
         format_number(100 * std::expm1(*std::max_element(c.speed.floor.begin(), c.speed.floor.end())), 2) + " %",
         c.name(c.baseline) + " against itself; at worst " +
             format_number(100 * std::expm1(*std::max_element(c.speed.worst.begin(), c.speed.worst.end())), 2) + " %"});
  page.tiles(tiles);
  page.notice(c.winner                 ? Tone::good
              : c.status == "complete" ? Tone::plain
                                       : Tone::caution,
              "What it comes to", c.sentences);
}

ScatterChart quality_by(const Comparison& c, const std::string& title, Axis axis, const std::vector<double>& x) {
  ScatterChart chart;
  chart.title = title;
  chart.detail =
      cat(better_of(c.experiment.score) == Better::higher ? "Higher" : "Lower", " and further left is better.");
  chart.x = std::move(axis);
  chart.y.label = score_name(c.experiment.score);
  for (size_t v = 0; v < c.variants.size(); ++v) {
    const VariantResult& r = c.variants[v];
    chart.groups.push_back(r.variant.name);
    chart.points.push_back({r.variant.name, x[v], r.score, 0, r.score_deviation, int(v)});
  }
  chart.height = 340;
  return chart;
}

template <class F>
std::vector<double> each(const Comparison& c, F&& of) {
  std::vector<double> out;
  for (size_t v = 0; v < c.variants.size(); ++v) out.push_back(of(v));
  return out;
}

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

void cost_table(Page& page, const Comparison& c) {
  Table table{"Cost",
              {{"Variant"},
               {"Parameters", true},
               {"In mixers", true},
               {"PEoP, all", true},
               {"PEoP, mixers", true},
               {"Forward FLOPs a token", true},
               {"Training FLOPs", true},
               {"Training memory", true},
               {"Trained in", true}},
              {},
              {}};
  for (size_t v = 0; v < c.variants.size(); ++v) {
    const VariantResult& r = c.variants[v];
    table.rows.push_back(
        {name_in_table(c, v), report::Cell::integer(r.variant.plan.parameters),
         report::Cell::integer(r.mixer_parameters), number_cell(r.peop, 3), number_cell(r.peop_mixer, 3),
         quantity_cell(r.variant.plan.forward.flops / r.variant.step_tokens, Quantity::count),
         quantity_cell(r.variant.plan.step.flops * double(r.variant.steps), Quantity::count),
         quantity_cell(peak_of(r), Quantity::bytes), quantity_cell(training_seconds(c, v), Quantity::seconds)});
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

void quality(Page& page, const Comparison& c) {
  page.section("Quality");
  IntervalChart chart;
  const std::string level = format_number(100 * c.experiment.confidence, 4) + " %";
  chart.title = "Loss relative to " + c.name(c.baseline);
  chart.detail =
      cat(level, " intervals",
          c.experiment.seeds.size() > 1 ? " over seeds and text" : " over the text; one seed says nothing about others",
          "; in colour what is beyond the noise.");
  chart.x.label = "difference in loss (nats per token)";
  chart.below = "better";
  chart.above = "worse";
  for (size_t v : c.ranking)
    for (const LossDifference& d : c.losses) {
      if (v == c.baseline || !((d.a == v && d.b == c.baseline) || (d.b == v && d.a == c.baseline))) continue;
      const double value = d.a == v ? d.both.value : -d.both.value, half = d.both.half_width(c.experiment.confidence);
      chart.rows.push_back({c.name(v), value, value - half, value + half, d.beyond});
    }
  const ScatterChart parameters =
      quality_by(c, "Quality against parameters", {"parameters", Quantity::count},
                 each(c, [&](size_t v) { return double(c.variants[v].variant.plan.parameters); }));
  const ScatterChart by_memory = quality_by(c, "Quality against memory", {"peak memory of training", Quantity::bytes},
                                            each(c, [&](size_t v) { return peak_of(c.variants[v]); }));
  if (!chart.rows.empty()) page.chart(chart);
  page.charts(parameters, by_memory);
  const auto seconds = each(c, [&](size_t v) { return training_seconds(c, v); });
  if (std::isfinite(seconds[0]))
    page.charts(quality_by(c, "Quality against time", {"time of training, as timed", Quantity::seconds}, seconds),
                retention(c));
  else
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

void learning(Page& page, const Comparison& c) {
  LineChart steps, time;
  steps.title = "Held-out loss while training";
  steps.x = {"step"};
  time.title = "Held-out loss against time";
  time.x = {"seconds of training, as timed", Quantity::number};
  steps.y.label = time.y.label = "loss (nats per token)";
  for (size_t v = 0; v < c.variants.size(); ++v) {
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

void speed(Page& page, const Comparison& c) {
  const Speed& s = c.speed;
  if (!s.measured()) return;
  page.section("Speed");
  page.paragraph(
      cat("Medians of ", s.rounds.size(), " rounds in which the variants take turns. ", c.name(c.baseline),
          " is measured twice in every round: no difference smaller than that between it and itself is called one."));
  const auto lines = [&](const std::string& title, const std::string& label, int64_t batch, const char* what,
                         auto&& of) {
    LineChart chart;
    chart.title = title;
    chart.detail = batch == 1 ? "one sequence" : cat(batch, " sequences at once");
    chart.x = {"tokens of the prompt", Quantity::number, true};
    chart.y = {label, Quantity::number, true};
    chart.height = 300;
    for (size_t v = 0; v < c.variants.size(); ++v) {
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
                      " % intervals over the rounds; in colour what is beyond the noise.");
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

void memory(Page& page, const Comparison& c) {
  page.section("Memory");
  LineChart chart;
  chart.title = "Bytes kept for one sequence";
  chart.detail = "By the formula of each part; variants with equal states lie on one line.";
  chart.x = {c.translates() ? "tokens of the source and of the translation" : "tokens so far", Quantity::number, true};
  chart.y = {"bytes", Quantity::bytes, true};
  std::string without;
  for (const VariantResult& r : c.variants) {
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
  peak.detail = cat("Weights, state and rows at the peak, ", plural(batch, "sequence"), " at once.");
  peak.x = {"tokens of the prompt", Quantity::number, true};
  peak.y = {"bytes", Quantity::bytes, true};
  for (size_t v = 0; v < c.variants.size(); ++v) {
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

void pairs_table(Page& page, const Comparison& c) {
  if (c.losses.empty()) return;
  Table table{"Every pair",
              {{"Pair"}, {"Difference in loss", true}, {"Interval"}, {"p, corrected", true}, {"Beyond the noise"}},
              {},
              {}};
  for (const LossDifference& d : c.losses) {
    const double half = d.both.half_width(c.experiment.confidence);
    table.rows.push_back({c.name(d.a) + " − " + c.name(d.b), number_cell(d.both.value, 3),
                          std::isfinite(half)
                              ? format_number(d.both.value - half, 3) + " to " + format_number(d.both.value + half, 3)
                              : "unknown",
                          number_cell(d.p, 2),
                          d.beyond                           ? "yes"
                          : d.seeds.df <= 0 && d.beyond_text ? "for these weights only"
                                                             : "no"});
  }
  page.table(table);
}

void background(Page& page, const Comparison& c) {
  page.section("Cost and fairness");
  cost_table(page, c);
  Table changes{
      "Differences from " + c.name(c.baseline), {{"Variant"}, {"Key"}, {"Baseline"}, {"Value"}, {"Because"}}, {}, {}};
  for (const VariantResult& r : c.variants)
    for (const Change& change : r.variant.changes)
      changes.rows.push_back({r.variant.name, change.key, change.baseline.empty() ? "–" : change.baseline,
                              change.own.empty() ? "–" : change.own, change.solved ? "the budget" : "declared"});
  if (changes.rows.empty())
    page.paragraph("The variants do not differ in any key.");
  else
    page.table(changes);
  Table shares{"The budget",
               {{"Variant"},
                {"Steps", true},
                {"Tokens", true},
                {"Of the budget", true},
                {"Solved"},
                {"Starts with the baseline's values", true}},
               {},
               {}};
  for (const VariantResult& r : c.variants) {
    const Share& share = r.variant.share;
    shares.rows.push_back(
        {r.variant.name, report::Cell::integer(r.variant.steps), report::Cell::integer(r.variant.tokens()),
         share.target > 0 ? report::Cell(100 * share.amount / share.target, Quantity::number, 5) : report::Cell("–"),
         share.key.empty() ? "" : cat(share.key, " ", share.from, " → ", share.to),
         report::Cell::share(double(r.start.shared) / double(std::max<int64_t>(1, r.start.all)))});
  }
  page.table(shares);
  page.paragraph(
      cat("Matched: ", c.experiment.budget.match,
          ". Data, the order of the data, the tokenizer, the held-out text and the seeds are the same for all; "
          "parameters of equal name and shape start with equal values."));
  pairs_table(page, c);
  std::vector<std::string> messages;
  for (const VariantResult& r : c.variants)
    for (const Outcome& o : r.runs)
      if (!o.message.empty()) messages.push_back(cat(r.variant.name, ", seed ", o.seed, ": ", o.message));
  if (!messages.empty()) page.notice(Tone::bad, "Diverged", messages);
  page.collapsible("Experiment", [&] { page.preformatted(c.experiment.text, "experiment file"); });
  page.collapsible("Environment", [&] {
    Table table{"Environment", {{"Name"}, {"Value"}}, {}, {}};
    for (const auto& [name, value] : c.environment) table.rows.push_back({name, value});
    page.table(table);
  });
}

}  // namespace

std::string to_page(const Comparison& c) {
  std::string subtitle = cat(c.variants.size(), " variants, ", plural(int64_t(c.experiment.seeds.size()), "seed"));
  if (c.experiment.budget.match != "none") subtitle += ", equal " + c.experiment.budget.match;
  for (const auto& [name, value] : c.environment)
    if (name == "version" || name == "cpu" || name == "threads")
      subtitle += " · " + (name == "version"   ? "lithe " + value
                           : name == "threads" ? value + " threads"
                                               : cut(value, 60));
  Page page(c.experiment.name, subtitle, "Comparison");
  headline(page, c);
  quality(page, c);
  if (c.translates()) add_translations(page, c);
  learning(page, c);
  memory(page, c);
  speed(page, c);
  background(page, c);
  return page.html();
}

}  // namespace lithe::compare
