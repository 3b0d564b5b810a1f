#include <algorithm>
#include <cmath>

#include "lithe/base/counted.h"
#include "lithe/bench/tables.h"
#include "lithe/report/page.h"
#include "lithe/train/plan.h"

namespace lithe::bench {
namespace {

using report::Cell;
using report::Page;
using report::Quantity;
using report::Tone;

// A cell that sorts by `key`.
Cell keyed(std::string text, double key) {
  Cell cell(std::move(text));
  if (std::isfinite(key)) cell.key = key;
  return cell;
}

Cell share_cell(const Measurement& m) {
  Cell cell = Cell::share(std::min(1.0, m.share()));
  cell.text = report::format_number(100 * m.share(), 3) + " %";
  cell.key = m.share();
  return cell;
}

double ceiling_of(const Result& r, Ceiling wanted) {
  for (const CeilingSamples& c : r.ceilings)
    if (c.ceiling == wanted) return spread_of(c.values).median;
  std::vector<double> seen;
  for (const Measurement& m : r.measurements)
    if (m.compute == wanted || m.memory == wanted)
      seen.push_back(m.compute == wanted ? m.compute_ceiling() : m.memory_ceiling());
  return spread_of(seen).median;
}

void headline(Page& page, const Result& r, const Changes* changes, double tolerance) {
  std::vector<report::Tile> tiles;
  for (const Ceiling c : {Ceiling::f32, Ceiling::bf16, Ceiling::int8, Ceiling::read})
    if (const double rate = ceiling_of(r, c); rate > 0)
      tiles.push_back({is_compute(c) ? cat(name_of(c), " multiply-add") : "reading memory", rate_text(rate, unit_of(c)),
                       cat(counted(r.setting.threads, "thread"))});
  std::vector<double> shares;
  for (const Measurement& m : r.measurements)
    if (m.group == "kernel") shares.push_back(m.share());
  if (!shares.empty())
    tiles.push_back({"kernels reach", report::format_number(100 * spread_of(shares).median, 3) + " %",
                     cat("of what bounds them: the median of ", shares.size())});
  page.tiles(tiles);
  if (changes)
    page.notice(changes->count(Verdict::slower) ? Tone::bad : Tone::good, "Against the earlier run",
                {sentence(*changes, tolerance)});
  if (const std::string warning = unrest(r); !warning.empty())
    page.notice(Tone::caution, "The machine was not quiet", {warning});
  if (!r.complete)
    page.notice(Tone::caution, "Stopped early", {"This is what was measured until a signal asked to stop."});
  if (!r.skipped.empty()) page.notice(Tone::caution, "Not measured", r.skipped);
}

// The roofs over intensities [low, high]: bandwidths rise, multiply-adds are level from where memory keeps up.
void add_roofs(report::ScatterChart& chart, const Result& r, double low, double high) {
  const double read = ceiling_of(r, Ceiling::read), copy = ceiling_of(r, Ceiling::copy);
  double top = 0;
  for (const Ceiling c : {Ceiling::f32, Ceiling::bf16, Ceiling::int8}) top = std::max(top, ceiling_of(r, c));
  const double fastest = std::max(read, copy);
  if (fastest <= 0 || top <= 0) return;
  high = std::max(high, 16 * top / fastest);
  double above = 0;  // a roof that is close below another has its name below it
  for (const Ceiling c : {Ceiling::int8, Ceiling::bf16, Ceiling::f32})
    if (const double rate = ceiling_of(r, c); rate > 0) {
      chart.lines.push_back({cat(name_of(c), " ", rate_text(rate, unit_of(c))),
                             rate < above && rate > 0.75 * above,
                             {rate / fastest, high},
                             {rate, rate}});
      above = rate;
    }
  const auto rising = [&](const char* what, double rate, bool below) {
    if (rate > 0)
      chart.lines.push_back({cat(what, " ", rate_text(rate, "B/s")), below, {low, top / rate}, {low * rate, top}});
  };
  rising("read", read, read < copy);
  rising("copy", copy, copy <= read);
}

void roofline(Page& page, const Result& r) {
  report::ScatterChart chart{.title = "Roofline",
                             .detail =
                                 "What each measurement reached, by its FLOPs a byte; both axes are logarithmic. "
                                 "Lines are the ceilings of this machine: nothing that comes from memory can be "
                                 "above them, what stays in a cache can.",
                             .x = {.label = "intensity (FLOP/byte)", .log = true},
                             .y = {.label = "achieved (FLOP/s)", .quantity = Quantity::count, .log = true},
                             .groups = {"bound by compute", "bound by memory"},
                             .height = 620};
  double low = 1e300, high = 0;
  // Far from their ceiling first: theirs are the labels to read, and labels go as long as there is room.
  std::vector<const Measurement*> order;
  bool without = false;
  for (const Measurement& m : r.measurements)
    if (m.cost.flops > 0)
      order.push_back(&m);
    else
      without = true;
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->share() < b->share(); });
  for (const Measurement* m : order) {
    const Spread s = m->seconds();
    chart.points.push_back({.label = m->label(),
                            .x = m->intensity(),
                            .y = m->achieved_flops(),
                            .y_error = m->cost.flops * (1 / s.low - 1 / s.high) / 2,
                            .group = m->memory_bound()});
    low = std::min(low, m->intensity()), high = std::max(high, m->intensity());
  }
  if (chart.points.empty()) return;
  if (without) chart.detail += " Measurements without arithmetic are in the table only.";
  add_roofs(chart, r, low / 2, high * 8);  // room for the names of the roofs
  page.section("Roofline");
  page.chart(chart);
}

void kernels(Page& page, const Result& r) {
  report::Table table{.columns = {{"kernel"},
                                  {"FLOPs", true},
                                  {"bytes", true},
                                  {"FLOP/byte", true},
                                  {"bound"},
                                  {"achieved", true},
                                  {"attainable", true},
                                  {"share", true},
                                  {"spread", true}}};
  for (const Measurement& m : r.measurements) {
    if (m.group != "kernel") continue;
    const Spread s = m.seconds();
    const bool memory = m.memory_bound();
    const double attainable = memory ? m.memory_ceiling() : m.compute_ceiling();
    table.rows.push_back({m.name, Cell(m.cost.flops, Quantity::count), Cell(m.cost.bytes, Quantity::bytes),
                          keyed(report::format_number(m.intensity(), 3), m.intensity()), memory ? "memory" : "compute",
                          keyed(achieved_text(m), memory ? m.achieved_bytes() : m.achieved_flops()),
                          keyed(rate_text(attainable, unit_of(memory ? m.memory : m.compute)), attainable),
                          share_cell(m), keyed(spread_text(s), (s.high - s.low) / s.median)});
  }
  if (table.rows.empty()) return;
  page.section("Kernels");
  page.paragraph(
      "FLOPs and bytes are each kernel's own count, every operand once. The share is the least time that the ceilings "
      "probed beside the measurement allow, over the time it took.");
  page.table(table);
}

void models(Page& page, const Result& r) {
  const std::vector<VariantDifference> differences = variant_differences(r);
  report::Table table{.columns = {{"measurement"},
                                  {"model"},
                                  {"speed", true},
                                  {"spread", true},
                                  {"bound"},
                                  {"share", true},
                                  {"peak memory", true}}};
  if (!differences.empty()) table.columns.insert(table.columns.end(), {{"to the first", true}});
  for (size_t i = 0; i < r.measurements.size(); ++i) {
    const Measurement& m = r.measurements[i];
    if (m.group == "kernel") continue;
    const Spread s = m.seconds();
    std::vector<Cell> row{m.group + " " + m.name,
                          m.variant,
                          keyed(rate_text(m.amount / s.median, m.unit + "/s"), m.amount / s.median),
                          keyed(spread_text(s), (s.high - s.low) / s.median),
                          m.memory_bound() ? "memory" : "compute",
                          share_cell(m),
                          m.peak_bytes ? Cell(double(m.peak_bytes), Quantity::bytes) : Cell("")};
    if (!differences.empty()) {
      const auto d = std::find_if(differences.begin(), differences.end(), [&](const auto& one) { return one.at == i; });
      const bool known = d != differences.end();
      row.push_back(known ? keyed(ratio_text(d->ratio) + ", " + name_of(d->verdict), d->ratio.value) : Cell(""));
    }
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return;
  page.section("Models");
  if (!differences.empty())
    page.paragraph(
        "To the first: the ratio of speeds in the same rounds, with its 95 % interval. A difference is only named "
        "where it is beyond the noise, also beyond the difference of the first model from itself.");
  page.table(table);
}

void against(Page& page, const Changes& c, const Result& r, const Result& before) {
  page.section("Against the earlier run");
  page.paragraph(cat("Speed now over speed then (version ", before.version, ", commit ", before.commit,
                     "); above 1 is faster. Only what the clock, the share of the ceilings and the fastest round agree "
                     "on is called a change."));
  report::Table table{.columns = {{"measurement"},
                                  {"by the clock", true},
                                  {"by the share of the ceiling", true},
                                  {"fastest round", true},
                                  {"verdict"}}};
  for (const Change& change : c.all)
    table.rows.push_back({r.measurements[change.now].label(), keyed(ratio_text(change.timed), change.timed.value),
                          keyed(ratio_text(change.share), change.share.value),
                          keyed(report::format_number(change.fastest, 3) + "x", change.fastest),
                          name_of(change.verdict)});
  page.table(table);
}

void machine_facts(Page& page, const Result& r) {
  page.section("Machine");
  report::Table ceilings{.caption = "Ceilings, by the rounds: the middle and the quartiles",
                         .columns = {{"ceiling"}, {"median", true}, {"low", true}, {"high", true}}};
  for (const CeilingSamples& c : r.ceilings) {
    const Spread s = spread_of(c.values);
    const auto cell = [&](double rate) { return keyed(rate_text(rate, unit_of(c.ceiling)), rate); };
    ceilings.rows.push_back({name_of(c.ceiling), cell(s.median), cell(s.low), cell(s.high)});
  }
  if (!ceilings.rows.empty()) page.table(ceilings);
  const bench::Setting& s = r.setting;
  report::Table facts{.columns = {{"what"}, {"value"}}};
  const auto fact = [&](const char* name, const std::string& value) { facts.rows.push_back({name, value}); };
  fact("processor", s.cpu);
  fact("logical processors", cat(s.logical_cpus));
  fact("threads in use", cat(s.threads));
  fact("instruction set", s.instruction_set);
  fact("memory", format_bytes(double(r.memory)));
  fact("huge pages", r.huge_pages);
  fact("precision", s.precision);
  fact("rounds", cat(r.rounds));
  fact("lithe", cat(r.version, ", commit ", r.commit, ", ", s.build_type));
  fact("compiler", r.compiler);
  page.table(facts);
}

}  // namespace

std::string page(const Result& r, const Changes* changes, const Result* before, double tolerance) {
  Page page("Benchmarks", cat(r.setting.cpu, ", ", counted(r.setting.threads, "thread")), "lithe bench");
  headline(page, r, changes, tolerance);
  roofline(page, r);
  models(page, r);
  kernels(page, r);
  if (changes && before) against(page, *changes, r, *before);
  machine_facts(page, r);
  return page.html();
}

}  // namespace lithe::bench
