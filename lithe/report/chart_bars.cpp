#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/report/scale.h"

namespace lithe::report {
namespace {

constexpr double kThickness = 28, kGap = 20, kThin = 16, kThinGap = 3;

std::string value_of(double value, Quantity quantity) { return format(value, quantity, 3); }

// Text beside or in a bar that has `room` pixels.
bool fits(std::string_view text, double room) { return text_width(text) + 10 <= room; }

double total_of(const Bar& bar) {
  double total = 0;
  for (const double value : bar.values)
    if (std::isfinite(value)) total += value;
  return total;
}

std::string rectangle(double from, double to, double y, double height, const std::string& color,
                      const std::string& title) {
  return cat("<rect class=\"box ", color, "\" x=\"", coordinate(std::min(from, to)), "\" y=\"", coordinate(y),
             "\" width=\"", coordinate(std::abs(to - from)), "\" height=\"", height, "\"><title>", escape(title),
             "</title></rect>");
}

std::string stacked_row(const BarChart& chart, const Bar& bar, const Scale& x, double y) {
  std::string out;
  double sum = 0;
  for (size_t s = 0; s < bar.values.size(); ++s) {
    if (!std::isfinite(bar.values[s]) || bar.values[s] == 0) continue;
    const double from = x(sum), to = x(sum += bar.values[s]);
    const std::string text = value_of(bar.values[s], chart.quantity);
    out += rectangle(from, to, y, kThickness, color_class(s), bar.label + "\n" + chart.series[s] + ": " + text);
    if (fits(text, to - from)) out += text_at((from + to) / 2, y + kThickness / 2 + 4, text, "inside middle");
  }
  return out + text_at(x(sum) + 8, y + kThickness / 2 + 4, value_of(sum, chart.quantity), "value");
}

std::string grouped_rows(const BarChart& chart, const Bar& bar, const Scale& x, double y) {
  std::string out;
  for (size_t s = 0; s < bar.values.size(); ++s, y += kThin + kThinGap) {
    const double value = bar.values[s];
    const std::string text = value_of(value, chart.quantity);
    if (!std::isfinite(value)) {
      out += text_at(x(0) + 6, y + kThin - 4, text, "value bad");
      continue;
    }
    out += rectangle(x(0), x(value), y, kThin, color_class(s),
                     bar.label + (chart.series[s].empty() ? "" : "\n" + chart.series[s]) + ": " + text);
    out += text_at(std::max(x(0), x(value)) + 6, y + kThin - 4, text, "value");
  }
  return out;
}

}  // namespace

std::string svg(const BarChart& chart, int width) {
  const size_t count = chart.series.size();
  std::vector<double> all = {0};
  double longest_label = 0, longest_value = 0;
  bool has_marker = false;
  std::string description = chart.title.empty() ? "Bar chart." : chart.title + ".";
  for (const Bar& bar : chart.bars) {
    check(bar.values.size() == count, "bar_chart", "bar '", bar.label, "' must have one value for each of ", count,
          " series, got ", bar.values.size());
    for (size_t s = 0; s < count; ++s) {
      check(!chart.stacked || !(bar.values[s] < 0), "bar_chart", "stacked values must not be negative, got ",
            bar.values[s], " in '", bar.label, "'");
      if (!chart.stacked) all.push_back(bar.values[s]);
      longest_value = std::max(longest_value, text_width(value_of(bar.values[s], chart.quantity)));
      description += " " + bar.label + (chart.series[s].empty() ? "" : ", " + chart.series[s]) + ": " +
                     value_of(bar.values[s], chart.quantity) + ".";
    }
    if (chart.stacked)
      all.push_back(total_of(bar)),
          longest_value = std::max(longest_value, text_width(value_of(total_of(bar), chart.quantity)));
    if (bar.marker && std::isfinite(*bar.marker)) {
      all.push_back(*bar.marker), has_marker = true;
      description += " " + bar.label + ", " + chart.marker_name + ": " + value_of(*bar.marker, chart.quantity) + ".";
    }
    longest_label = std::max(longest_label, text_width(bar.label));
  }
  std::vector<LegendItem> legend;
  for (size_t s = 0; s < count; ++s)
    if (!chart.series[s].empty()) legend.push_back({chart.series[s], color_class(s), "box"});
  if (has_marker) legend.push_back({chart.marker_name, "", "pointer"});
  const Legend names = draw_legend(legend, 4, 2, width - 8);

  // Long labels on a narrow page stand above their bars.
  const bool above = longest_label > 0.34 * width;
  const double left = above ? 6 : longest_label + 16, right = longest_value + 16;
  const double lines = chart.stacked ? kThickness : double(count) * (kThin + kThinGap) - kThinGap;
  const double pitch = lines + kGap + (above ? 18 : 0), top = names.height + 10;
  const int height = int(top + pitch * double(chart.bars.size()) + 28);
  Axis axis;
  axis.quantity = chart.quantity;
  const AxisRange range = axis_range(all, axis, width < 500 ? 3 : 6, Fit::exact);
  const Scale x{range.low, range.high, left, width - right, false};

  std::string out = svg_open(width, height, "bars", description) + ">" + names.svg + "<g class=\"axes\">";
  double free_from = -1;
  for (const Tick& tick : range.ticks) {
    const double at = x(tick.value), half = text_width(tick.label) / 2;
    out += cat("<path class=\"grid\" d=\"M", coordinate(at), ",", coordinate(top - 4), "V", height - 26, "\"/>");
    if (at - half < free_from) continue;
    out += text_at(at, height - 9, tick.label, "tick middle");
    free_from = at + half + 8;
  }
  out += "</g>";
  double y = top + (above ? 18 : 0);
  for (const Bar& bar : chart.bars) {
    out += above ? text_at(left, y - 6, cut_to(bar.label, width - left), "name")
                 : text_at(left - 10, y + lines / 2 + 4, bar.label, "name end");
    out += chart.stacked ? stacked_row(chart, bar, x, y) : grouped_rows(chart, bar, x, y);
    if (bar.marker && std::isfinite(*bar.marker))
      out += cat("<path class=\"marker\" d=\"M", coordinate(x(*bar.marker)), ",", coordinate(y - 1),
                 "l-5,-8h10z\"><title>", escape(chart.marker_name), ": ", value_of(*bar.marker, chart.quantity),
                 "</title></path>");
    y += pitch;
  }
  return out + "</svg>";
}

}  // namespace lithe::report
