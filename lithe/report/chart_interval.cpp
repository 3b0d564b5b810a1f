#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/report/scale.h"

namespace lithe::report {

std::string svg(const IntervalChart& chart, int width) {
  constexpr double kPitch = 34;
  std::vector<double> all = {chart.origin};
  double longest = 0;
  for (const Interval& row : chart.rows) {
    for (const double v : {row.value, row.low, row.high})
      if (drawable(v, chart.x)) all.push_back(v);
    longest = std::max(longest, text_width(row.label));
  }
  const bool above = longest > 0.34 * width;
  const double pitch = kPitch + (above ? 16 : 0), left = above ? 10 : longest + 18, right = 18,
               top = chart.below.empty() && chart.above.empty() ? 12.0 : 46.0,
               bottom = top + pitch * double(chart.rows.size());
  const int height = int(bottom + 46);
  const AxisRange range = axis_range(all, chart.x, width < 500 ? 4 : 7, Fit::padded);
  const Scale x{range.low, range.high, left, width - right, chart.x.log};
  const double origin = x(chart.origin);

  std::string description = chart.title.empty() ? "Intervals." : chart.title + ".", axes, rows;
  for (const Tick& tick : range.ticks) {
    axes += cat("<path class=\"grid\" d=\"M", coordinate(x(tick.value)), ",", coordinate(top), "V", coordinate(bottom),
                "\"/>");
    axes += text_at(x(tick.value), bottom + 17, tick.label, "tick middle");
  }
  axes +=
      cat("<path class=\"base\" d=\"M", coordinate(origin), ",", coordinate(top - 4), "V", coordinate(bottom), "\"/>");
  if (!chart.x.label.empty()) axes += text_within((left + width - right) / 2, bottom + 38, chart.x.label, width - 2);
  // One above the other, so that neither has to end where the other begins.
  if (!chart.below.empty()) {
    const std::string text = "\u2190 " + cut_to(chart.below, width - 20);
    axes += text_at(std::max(origin - 8, text_width(text) + 2), top - 26, text, "label end");
  }
  if (!chart.above.empty()) {
    const std::string text = cut_to(chart.above, width - 20) + " \u2192";
    axes += text_at(std::min(origin + 8, width - 2 - text_width(text)), top - 10, text, "label");
  }

  double y = top + kPitch / 2 + (above ? 16 : 0);
  for (const Interval& row : chart.rows) {
    const std::string color = row.clear ? "s0" : "s7",
                      interval = std::isfinite(row.low) && std::isfinite(row.high)
                                     ? cat(" (", format(row.low, chart.x.quantity, 3), " to ",
                                           format(row.high, chart.x.quantity, 3), ")")
                                     : std::string(" (interval unknown)"),
                      text = row.label + ": " + format(row.value, chart.x.quantity, 3) + interval;
    description += " " + text + ".";
    rows += above ? text_at(left, y - 16, cut_to(row.label, width - left), "name")
                  : text_at(left - 12, y + 4, row.label, "name end");
    if (drawable(row.low, chart.x) && drawable(row.high, chart.x) && row.high > row.low) {
      const std::string low = coordinate(x(row.low)), high = coordinate(x(row.high)), up = coordinate(y - 5);
      rows += cat("<path class=\"error ", color, "\" d=\"M", low, ",", coordinate(y), "H", high, "M", low, ",", up,
                  "v10M", high, ",", up, "v10\"><title>", escape(text), "</title></path>");
    }
    if (drawable(row.value, chart.x))
      rows += cat("<circle class=\"dot ", color, "\" cx=\"", coordinate(x(row.value)), "\" cy=\"", coordinate(y),
                  "\" r=\"5\"><title>", escape(text), "</title></circle>");
    y += pitch;
  }
  return svg_open(width, height, "intervals", description) + "><g class=\"axes\">" + axes + "</g>" + rows + "</svg>";
}

}  // namespace lithe::report
