#include "lithe/report/part_statistics.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"

namespace lithe::report {
namespace {

constexpr size_t kMapSteps = 48;     // columns of a map; more are thinned evenly
constexpr size_t kMapRows = 128;     // statistics of more numbers have no map
constexpr size_t kTableValues = 64;  // columns of the table of last values

using Group = std::vector<const PartStatistic*>;  // of one name, layer after layer

std::string title_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  std::replace(name.begin(), name.end(), '.', ' ');
  if (!name.empty() && name[0] >= 'a' && name[0] <= 'z') name[0] = char(name[0] - 'a' + 'A');
  return name;
}

std::string layer_name(const PartStatistic& s) { return s.layer ? cat("layer ", s.layer) : "model"; }

double extreme(const std::vector<double>& values, bool highest) {
  double out = std::nan("");
  for (const double value : values) out = highest ? std::fmax(out, value) : std::fmin(out, value);
  return out;
}

// One line a layer of what `pick` makes of a step's values.
template <class Pick>
LineChart over_steps(const std::string& title, const Group& group, Pick pick) {
  LineChart chart;
  chart.title = title;
  chart.x.label = "step";
  chart.y.from_zero = true;
  chart.height = 270;
  for (const PartStatistic* s : group) {
    Series series{group.size() > 1 ? layer_name(*s) : "", s->step, {}};
    for (const std::vector<double>& values : s->values) series.y.push_back(pick(values));
    series.dots = series.x.size() <= 60;
    chart.series.push_back(std::move(series));
  }
  return chart;
}

HeatMap map_of(const PartStatistic& s, size_t numbers, const std::string& title) {
  HeatMap map;
  map.row_name = "number";
  map.column_name = "step";
  for (size_t i = 0; i < numbers; ++i) map.rows.push_back(cat(i));
  const size_t columns = std::min(s.step.size(), kMapSteps);
  double largest = 0;
  std::vector<size_t> shown;
  for (size_t c = 0; c < columns; ++c) {
    shown.push_back(columns == s.step.size() ? c : c * (s.step.size() - 1) / (columns - 1));
    map.columns.push_back(format_number(s.step[shown.back()], 9));
    for (const double value : s.values[shown.back()]) largest = std::fmax(largest, value);
  }
  for (size_t i = 0; i < numbers; ++i)
    for (const size_t at : shown)
      map.values.push_back(i < s.values[at].size() && largest > 0 ? s.values[at][i] / largest : std::nan(""));
  map.title = cat(title, ", ", layer_name(s));
  map.detail = cat("Full colour is ", format_number(largest), ".");
  return map;
}

size_t numbers_of(const PartStatistic& s) {
  size_t most = 0;
  for (const std::vector<double>& values : s.values) most = std::max(most, values.size());
  return most;
}

void last_values(Page& page, const Group& group, const std::string& title, size_t numbers) {
  const size_t columns = std::min(numbers, kTableValues);
  Table table{title, {{"Layer"}, {"Lowest", true}, {"Highest", true}}, {}, {}};
  for (size_t i = 0; i < columns && numbers > 1; ++i) table.columns.push_back({cat(i), true});
  if (numbers == 1) table.columns = {{"Layer"}, {"Value", true}};
  for (const PartStatistic* s : group) {
    const std::vector<double>& values = s->values.back();
    std::vector<Cell> row{layer_name(*s)};
    if (numbers > 1)
      for (const bool highest : {false, true}) row.push_back({extreme(values, highest), Quantity::number, 4});
    for (size_t i = 0; i < columns; ++i)
      row.push_back(i < values.size() ? Cell(values[i], Quantity::number, 4) : Cell("–"));
    table.rows.push_back(std::move(row));
  }
  page.table(table);
}

// Calls f(group, title, most numbers) for each name.
template <class F>
void each_group(const std::vector<PartStatistic>& all, F f) {
  for (size_t begin = 0; begin < all.size();) {
    Group group;
    size_t numbers = 0;
    for (size_t i = begin; i < all.size() && all[i].name == all[begin].name; ++i) {
      group.push_back(&all[i]);
      numbers = std::max(numbers, numbers_of(all[i]));
    }
    if (numbers) f(group, title_of(all[begin].name), numbers);
    begin += group.size();
  }
}

}  // namespace

void part_statistics(Page& page, const std::vector<PartStatistic>& all) {
  if (all.empty()) return;
  page.section("Inside the parts");
  page.paragraph("What parts of the model showed of themselves, the mean of each logged interval of steps.");
  each_group(all, [&](const Group& group, const std::string& title, size_t numbers) {
    if (numbers == 1) {
      page.chart(
          over_steps(title, group, [](const std::vector<double>& v) { return v.empty() ? std::nan("") : v[0]; }));
    } else {
      page.charts(over_steps(title + ", highest", group, [](const auto& v) { return extreme(v, true); }),
                  over_steps(title + ", lowest", group, [](const auto& v) { return extreme(v, false); }));
      std::vector<Page::Figure> maps;
      for (const PartStatistic* s : group)
        if (numbers <= kMapRows) maps.push_back(Page::half_figure(map_of(*s, numbers, title)));
      if (!maps.empty())
        page.collapsible(
            cat(title, " over the steps"), [&] { page.figures(maps); }, maps.size() <= 4);
    }
    last_values(page, group, title + " at the last logged step", numbers);
  });
}

void part_values(Page& page, const std::vector<PartStatistic>& all) {
  each_group(all, [&](const Group& group, const std::string& title, size_t numbers) {
    last_values(page, group, title, numbers);
  });
}

}  // namespace lithe::report
