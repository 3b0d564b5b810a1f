// The page of a search: its candidates as a table and against what they cost.
#include <algorithm>

#include "lithe/compare/page_parts.h"
#include "lithe/compare/search.h"
#include "lithe/report/page.h"

namespace lithe::compare {

using report::Axis;
using report::format;
using report::format_integer;
using report::Page;
using report::Quantity;
using report::ScatterChart;
using report::Table;
using report::Tile;
using report::Tone;

namespace {

const char* describe(CandidateStatus status) {
  switch (status) {
    case CandidateStatus::finished: return "trained";
    case CandidateStatus::beyond: return "beyond the budget";
    case CandidateStatus::shared: return "scored by the super-network";
    case CandidateStatus::refused: return "cannot be built";
    default: return name_of(status);
  }
}

}  // namespace

std::string to_page(const SearchResult& r) {
  const SearchFile& s = r.search;
  Page page(s.file.stem() == "search" ? "Search" : cat("Search: ", s.file.stem().string()),
            cat(s.how.method, " over ", s.choices.size(), s.choices.size() == 1 ? " choice" : " choices",
                s.supernet.steps ? ", by a super-network" : ""),
            "lithe search");
  const auto best =
      std::find_if(r.candidates.begin(), r.candidates.end(), [&](const Candidate& c) { return c.name == r.best; });
  int64_t trained = 0;
  for (const Candidate& c : r.candidates)
    trained += c.status == CandidateStatus::finished || c.status == CandidateStatus::diverged;
  std::vector<Tile> tiles{
      {.label = "candidates", .value = cat(r.candidates.size()), .detail = cat(trained, " trained")}};
  if (best != r.candidates.end()) {
    tiles.push_back({.label = "best",
                     .value = best->name,
                     .detail = best->fits ? "within all budgets" : "beyond a budget",
                     .tone = best->fits ? Tone::good : Tone::caution});
    tiles.push_back(
        {.label = "its loss", .value = format(best->loss, Quantity::number, 4), .detail = "nats per token"});
    tiles.push_back({.label = "its parameters", .value = format_integer(best->parameters), .detail = ""});
  }
  page.tiles(tiles);
  if (r.status != Progress::complete)
    page.notice(Tone::caution, "The search was stopped; run the command again to go on.");
  if (best != r.candidates.end()) {
    std::vector<std::string> lines;
    for (size_t i = 0; i < s.choices.size(); ++i) lines.push_back(s.choices[i].first + " = " + best->values[i]);
    page.notice(Tone::good, "The best candidate", lines);
  }

  page.section("Quality against cost");
  const std::vector<std::string> groups{"within the budget", "beyond it"};
  const auto chart = [&](const char* title, const Axis& x, double limit, auto&& amount) {
    ScatterChart out{.title = title,
                     .detail = "each candidate that was trained",
                     .x = x,
                     .y = {},
                     .groups = groups,
                     .points = {},
                     .lines = {}};
    out.y = {.label = "loss (nats per token)"};
    double low = INFINITY, high = -INFINITY;
    for (const Candidate& c : r.candidates)
      if (std::isfinite(c.loss)) {
        out.points.push_back({.label = c.name, .x = amount(c), .y = c.loss, .group = c.fits ? 0 : 1});
        low = std::min(low, c.loss), high = std::max(high, c.loss);
      }
    if (limit > 0 && low <= high) out.lines.push_back({.label = "budget", .x = {limit, limit}, .y = {low, high}});
    return out;
  };
  page.charts(chart("Loss against parameters", {.label = "parameters"}, s.budget.parameters,
                    [](const Candidate& c) { return double(c.parameters); }),
              chart("Loss against work", {.label = "forward FLOPs a token"}, s.budget.flops,
                    [](const Candidate& c) { return c.flops; }));
  if (s.budget.latency > 0)
    page.chart(chart("Loss against latency", {.label = "milliseconds a token"}, s.budget.latency,
                     [](const Candidate& c) { return c.latency; }));

  page.section("Candidates");
  Table table{.caption = "", .columns = {{"candidate"}, {"became"}}, .rows = {}, .total = {}};
  for (const auto& [key, values] : s.choices) table.columns.push_back({key.substr(key.find('.') + 1)});
  for (const char* name : {"parameters", "FLOPs a token", "memory", "ms a token", "shared loss", "loss", "objective"})
    table.columns.push_back({name, true});
  for (const Candidate& c : r.candidates) {
    std::vector<report::Cell> row{c.name, c.message.empty() || c.status == CandidateStatus::finished
                                              ? describe(c.status)
                                              : cat(describe(c.status), ": ", c.message)};
    for (const std::string& value : c.values) row.push_back(value);
    const bool built = c.status != CandidateStatus::refused;
    row.push_back(built ? report::Cell::integer(c.parameters) : report::Cell("-"));
    row.push_back(number_cell(built ? c.flops : std::nan(""), 4));
    row.push_back(quantity_cell(built ? c.memory : std::nan(""), Quantity::bytes));
    for (const double value : {c.latency, c.shared_loss, c.loss, c.objective}) row.push_back(number_cell(value, 5));
    table.rows.push_back(std::move(row));
  }
  page.table(table);
  page.paragraph(
      "The objective is the loss plus, for each budget, its weight times the part by which the candidate exceeds it. "
      "Differences between single trainings may be noise: lithe compare on compare.yaml with more seeds says which are "
      "not.");
  return page.html();
}

}  // namespace lithe::compare
