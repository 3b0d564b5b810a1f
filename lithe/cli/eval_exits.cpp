#include "lithe/cli/eval_exits.h"

#include <cmath>
#include <cstdio>

#include "lithe/report/page.h"

namespace lithe {
namespace {

constexpr double kMostLoss = 0.01;  // of quality, for the rule that is named

template <class... T>
std::string line(const char* how, T... values) {
  char text[256];
  std::snprintf(text, sizeof text, how, values...);
  return text;
}

std::string rule_of(const ExitPoint& p) { return p.rule ? text_of(*p.rule) : "all layers"; }
std::string criterion_of(const ExitPoint& p) {
  const std::string all = rule_of(p);
  return all.substr(0, all.find(':'));
}
double speed(const ExitTable& t, const ExitPoint& p) { return t.points[0].milliseconds / p.milliseconds; }

}  // namespace

std::string exit_table_text(const ExitTable& t) {
  std::string out = line("%-18s %16s %9s %12s %12s %7s\n", "rule", t.quality.c_str(), "worse by", "layers",
                         ("ms a " + t.unit).c_str(), "speed");
  for (const ExitPoint& p : t.points)
    out += line("%-18s %16.4f %8.2f%% %12.2f %12.4f %6.2fx\n", rule_of(p).c_str(), p.quality, 100 * relative_loss(t, p),
                p.mean_layers, p.milliseconds, speed(t, p));
  if (const ExitPoint* best = best_exit(t, kMostLoss))
    out +=
        cat("fastest that is at most 1 % worse: ", rule_of(*best), line(", %.2f times as fast", speed(t, *best)), "\n");
  else
    out += "no rule is faster and at most 1 % worse\n";
  return out;
}

Json exit_table_json(const ExitTable& t) {
  Json json = {{"quality", t.quality}, {"lower_is_better", t.lower_is_better},
               {"unit", t.unit},       {"scored", t.scored},
               {"timed", t.timed},     {"points", Json::array()}};
  for (const ExitPoint& p : t.points)
    json["points"].push_back({{"rule", p.rule ? Json(text_of(*p.rule)) : Json()},
                              {"criterion", criterion_of(p)},
                              {t.quality, p.quality},
                              {"relative_loss", relative_loss(t, p)},
                              {"mean_layers", p.mean_layers},
                              {"milliseconds", p.milliseconds},
                              {"speed", speed(t, p)}});
  const ExitPoint* best = best_exit(t, kMostLoss);
  json["best_within_1_percent"] = best ? Json(rule_of(*best)) : Json();
  return json;
}

std::string exit_table_page(const ExitTable& t, const std::string& title) {
  report::Page page(title, cat(t.quality, " of ", t.scored, " ", t.unit, "s, times of ", t.timed, " at batch 1"),
                    "early exits");
  const auto chart = [&](const char* name, const char* label, double ExitPoint::*x) {
    report::ScatterChart c{
        .title = cat(t.quality, " against ", name),
        .detail = t.lower_is_better ? "lower and further left is better" : "higher and further left is better",
        .x = {.label = label},
        .y = {.label = t.quality},
        .groups = {},
        .points = {},
        .lines = {}};
    for (const ExitPoint& p : t.points) {
      const std::string group = criterion_of(p);
      size_t at = 0;
      while (at < c.groups.size() && c.groups[at] != group) ++at;
      if (at == c.groups.size()) c.groups.push_back(group);
      c.points.push_back({.label = "", .x = p.*x, .y = p.quality, .group = int(at)});
    }
    return c;
  };
  page.section("Quality");
  page.charts(chart("layers", "mean layers", &ExitPoint::mean_layers),
              chart("time", cat("ms a ", t.unit).c_str(), &ExitPoint::milliseconds));
  if (const ExitPoint* best = best_exit(t, kMostLoss))
    page.notice(report::Tone::good, cat("fastest rule that is at most 1 % worse: ", rule_of(*best),
                                        line(" (%.2f times as fast)", speed(t, *best))));
  page.section("Rules");
  report::Table table{.caption = "",
                      .columns = {{"rule"},
                                  {t.quality, true},
                                  {"worse by, %", true},
                                  {"layers", true},
                                  {cat("ms a ", t.unit), true},
                                  {"speed", true}},
                      .rows = {},
                      .total = {}};
  using report::Quantity;
  for (const ExitPoint& p : t.points)
    table.rows.push_back({rule_of(p),
                          {p.quality, Quantity::number, 5},
                          {100 * relative_loss(t, p), Quantity::number},
                          {p.mean_layers, Quantity::number, 4},
                          {p.milliseconds, Quantity::number, 4},
                          {speed(t, p), Quantity::number}});
  page.table(table);
  return page.html();
}

}  // namespace lithe
