#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/compare/fronts.h"
#include "lithe/compare/page_parts.h"

namespace lithe::compare {
namespace {

report::ScatterChart chart_of(const Comparison& c, const Front& front) {
  report::ScatterChart chart;
  chart.title = "Quality against " + front.cost;
  chart.detail = cat(better_of(c.experiment.score) == Better::higher ? "Higher" : "Lower",
                     " and further left is better; no variant beats one on the front in both.");
  chart.x = {front.cost, front.quantity};
  double least = INFINITY, most = 0;
  for (const double cost : front.costs)
    if (std::isfinite(cost)) least = std::min(least, cost), most = std::max(most, cost);
  chart.x.log = least > 0 && most > 20 * least;
  chart.y.label = score_name(c.experiment.score);
  chart.groups = {"on the front", "others"};
  for (size_t v = 0; v < c.variants.size(); ++v) {
    const VariantResult& r = c.variants[v];
    const bool on = std::find(front.members.begin(), front.members.end(), v) != front.members.end();
    const bool named = on || v == c.baseline || !is_crowded(c);
    chart.points.push_back(
        {named ? r.variant.name : std::string(), front.costs[v], r.score, 0, r.score_deviation, on ? 0 : 1});
  }
  chart.height = 340;
  return chart;
}

}  // namespace

void add_fronts(report::Page& page, const Comparison& c) {
  const std::vector<Front> fronts = fronts_of(c);
  if (fronts.empty()) return;
  page.section("Which to take");
  for (size_t i = 0; i + 1 < fronts.size(); i += 2) page.charts(chart_of(c, fronts[i]), chart_of(c, fronts[i + 1]));
  if (fronts.size() % 2) page.chart(chart_of(c, fronts.back()));
  report::Table table{
      "Where a cost is short, from the cheapest to the best",
      {{"Short of"}, {"Variant"}, {"Cost", true}, {score_name(c.experiment.score), true}, {"Loss", true}},
      {},
      {}};
  for (const Front& front : fronts)
    for (const size_t v : front.members) {
      const VariantResult& r = c.variants[v];
      table.rows.push_back({front.cost, name_in_table(c, v), quantity_cell(front.costs[v], front.quantity),
                            with_deviation(r.score, r.score_deviation, r.finished()),
                            with_deviation(r.loss, r.loss_deviation, r.finished())});
    }
  page.table(table);
  page.paragraph(
      "Means decide who is on a front; neighbours on it may lie within the noise of each other, which the intervals "
      "above "
      "tell.");
}

}  // namespace lithe::compare
