#include <algorithm>
#include <cmath>
#include <limits>

#include "lithe/base/counted.h"
#include "lithe/base/error.h"
#include "lithe/compare/page_parts.h"

namespace lithe::compare {
namespace {

using report::cut;
using report::format_integer;
using report::format_number;
using report::Page;
using report::Quantity;
using report::Table;
using report::Tile;
using report::Tone;

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
                   counted(int64_t(c.variants.size()), "variant") + ", " +
                       counted(int64_t(c.experiment.seeds.size()), "seed") +
                       (diverged ? cat("; ", diverged, " diverged") : ""),
                   diverged ? Tone::bad : Tone::plain});
  if (c.speed.measured())
    tiles.push_back(
        {"Noise of timing",
         format_number(100 * std::expm1(*std::max_element(c.speed.floor.begin(), c.speed.floor.end())), 2) + " %",
         c.name(c.baseline) + " against itself; at worst " +
             format_number(100 * std::expm1(*std::max_element(c.speed.worst.begin(), c.speed.worst.end())), 2) + " %"});
  page.tiles(tiles);
  page.notice(c.winner                         ? Tone::good
              : c.status == Progress::complete ? Tone::plain
                                               : Tone::caution,
              "What it comes to", c.sentences);
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
         quantity_cell(r.variant.training_flops(), Quantity::count), quantity_cell(peak_of(r), Quantity::bytes),
         quantity_cell(training_seconds(c, v), Quantity::seconds)});
  }
  page.table(table);
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

report::Cell with_deviation(double value, double deviation, int64_t runs, int digits) {
  report::Cell cell = number_cell(value, digits);
  if (std::isfinite(value) && runs > 1) cell.text += " ± " + format_number(deviation, 2);
  return cell;
}

double training_seconds(const Comparison& c, size_t v) {
  if (!c.speed.measured() || !c.experiment.measure.train_steps) return std::nan("");
  return c.speed.spread(v, "training", -1).median * double(c.variants[v].variant.steps);
}

double peak_of(const VariantResult& r) {
  return double(r.measured_peak() ? r.measured_peak() : r.variant.plan.memory.peak);
}

std::string state_place(const Comparison& c) {
  return cat(" at ", format_integer(c.cache_lengths[kStateShown]), " tokens", c.translates() ? " of either side" : "");
}

std::string to_page(const Comparison& c) {
  std::string subtitle =
      cat(counted(int64_t(c.variants.size()), "variant"), ", ", counted(int64_t(c.experiment.seeds.size()), "seed"));
  if (c.experiment.budget.match != "none") subtitle += ", equal " + c.experiment.budget.match;
  for (const auto& [name, value] : c.environment)
    if (name == "version" || name == "cpu" || name == "threads")
      subtitle += " · " + (name == "version"   ? "lithe " + value
                           : name == "threads" ? value + (value == "1" ? " thread" : " threads")
                                               : cut(value, 60));
  Page page(c.experiment.name, subtitle, "Comparison");
  headline(page, c);
  add_quality(page, c);
  add_fronts(page, c);
  if (c.translates()) add_translations(page, c);
  add_learning(page, c);
  add_memory(page, c);
  add_speed(page, c);
  background(page, c);
  return page.html();
}

}  // namespace lithe::compare
