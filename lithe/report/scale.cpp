#include "lithe/report/scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lithe/base/error.h"

namespace lithe::report {
namespace {

constexpr double kLargest = 1e300, kSmallest = 1e-300;

// The step of the form {1, 2, 5} * 10^k that divides `range` into at most `count` parts.
double nice_step(double range, int count) {
  const double raw = range / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// Decimals that tell ticks `step` apart.
std::string tick_label(double value, double step, const Axis& axis, double unit) {
  if (axis.quantity == Quantity::bytes) return value == 0 ? "0" : format(value, axis.quantity, 4);
  if (axis.quantity == Quantity::count) return format(value, axis.quantity, 6);
  if (axis.quantity == Quantity::seconds) return format(value, axis.quantity, 4);
  const double size = std::max(std::abs(value), unit);
  const int digits = step > 0 ? std::clamp(int(std::ceil(std::log10(size / step) - 1e-9)) + 1, 1, 16) : 6;
  return format_number(std::abs(value) < step * 1e-6 ? 0 : value, digits);
}

void linear_ticks(AxisRange& range, const Axis& axis, int count, Fit fit) {
  double unit = 1;
  if (axis.quantity == Quantity::bytes)
    while (std::max(std::abs(range.low), std::abs(range.high)) >= unit * 1024) unit *= 1024;
  double step = nice_step((range.high - range.low) / unit, count) * unit;
  if ((axis.quantity == Quantity::bytes || axis.quantity == Quantity::count) && step < 1) step = 1;
  if (fit == Fit::rounded) {
    range.low = std::floor(2 * range.low / step + 1e-9) * step / 2;
    range.high = std::ceil(2 * range.high / step - 1e-9) * step / 2;
  }
  const double first = std::ceil(range.low / step - 1e-9), last = std::floor(range.high / step + 1e-9);
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  for (double i = first; i <= last; ++i) range.ticks.push_back({i * step, tick_label(i * step, step, axis, largest)});
}

// Powers of two, thinned: 64 KiB, 1 MiB, 16 MiB.
void binary_log_ticks(AxisRange& range, const Axis& axis, int count, Fit fit) {
  const int first = int(std::floor(std::log2(range.low) + 1e-9)), last = int(std::ceil(std::log2(range.high) - 1e-9));
  if (fit == Fit::rounded) range.low = std::ldexp(1, first), range.high = std::ldexp(1, last);
  const int stride = std::max(1, (last - first + count - 1) / count);
  for (int i = first; i <= last; ++i) {
    const double value = std::ldexp(1, i);
    if (i % stride == 0 && value >= range.low * (1 - 1e-9) && value <= range.high * (1 + 1e-9))
      range.ticks.push_back({value, format(value, axis.quantity, 3)});
  }
}

void decimal_log_ticks(AxisRange& range, const Axis& axis, int count, Fit fit) {
  const auto grid = [](int i) {  // 1, 2, 5, 10, 20, ...
    static constexpr double factors[] = {1, 2, 5};
    const int decade = i >= 0 ? i / 3 : -((2 - i) / 3);
    return factors[i - 3 * decade] * std::pow(10.0, decade);
  };
  int first = 3 * int(std::floor(std::log10(range.low))) - 1, last = first;
  while (grid(first + 1) <= range.low * (1 + 1e-9)) ++first;
  last = first;
  while (grid(last) < range.high * (1 - 1e-9)) ++last;
  if (fit == Fit::rounded) range.low = grid(first), range.high = grid(last);
  const double decades = std::log10(range.high / range.low);
  const int stride = std::max(1, int(std::ceil(decades / count)));
  // Powers of ten where they are enough, else those between them too.
  for (const bool powers : {true, false}) {
    if (range.ticks.size() >= 3 || (powers && 3 * decades <= count)) continue;
    range.ticks.clear();
    for (int i = first; i <= last; ++i) {
      const double value = grid(i);
      if (value < range.low * (1 - 1e-9) || value > range.high * (1 + 1e-9)) continue;
      if (powers && (i % 3 != 0 || (i / 3) % stride != 0)) continue;
      range.ticks.push_back({value, format(value, axis.quantity, 3)});
    }
  }
}

void log_ticks(AxisRange& range, const Axis& axis, int count, Fit fit) {
  axis.quantity == Quantity::bytes ? binary_log_ticks(range, axis, count, fit)
                                   : decimal_log_ticks(range, axis, count, fit);
  if (range.ticks.size() >= 3) return;
  range.ticks.clear();
  linear_ticks(range, axis, count, Fit::exact);
  std::erase_if(range.ticks, [](const Tick& tick) { return tick.value <= 0; });
}

}  // namespace

bool drawable(double value, const Axis& axis) {
  return std::abs(value) <= kLargest && (!axis.log || value >= kSmallest);
}

double Scale::operator()(double value) const {
  const double part = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return from + part * (to - from);
}

AxisRange axis_range(const std::vector<double>& values, const Axis& axis, int count, Fit fit) {
  AxisRange range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), {}};
  for (const double value : values) {
    if (!drawable(value, axis)) continue;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  if (range.low > range.high) range.low = axis.log ? 1 : 0, range.high = axis.log ? 10 : 1;
  if (axis.from_zero && !axis.log) range.low = std::min(range.low, 0.0), range.high = std::max(range.high, 0.0);
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  if (range.high - range.low <= 1e-12 * size || size < kSmallest) {
    // One value only: give it room. Zero alone has no scale of its own.
    if (axis.log) {
      range.low /= 2, range.high *= 2;
    } else {
      const double room = size < kSmallest ? 1 : 0.1 * size;
      range.low -= room, range.high += room;
    }
  }
  if (fit == Fit::padded) {
    constexpr double part = 0.06;
    const double room = part * (range.high - range.low), factor = std::pow(range.high / range.low, part);
    const bool stays_at_zero = axis.from_zero && range.low == 0;
    range.low = axis.log ? range.low / factor : stays_at_zero ? 0 : range.low - room;
    range.high = axis.log ? range.high * factor : range.high + room;
  }
  axis.log ? log_ticks(range, axis, count, fit) : linear_ticks(range, axis, count, fit);
  return range;
}

std::string svg_open(int width, int height, const std::string& kind, const std::string& description) {
  return cat("<svg class=\"chart ", kind, "\" role=\"img\" aria-label=\"", escape(description), "\" viewBox=\"0 0 ",
             width, " ", height, "\" style=\"max-width:", width * 5 / 4, "px\"");
}

std::string text_at(double x, double y, std::string_view text, const std::string& classes) {
  return cat("<text class=\"", classes, "\" x=\"", coordinate(x), "\" y=\"", coordinate(y), "\">", escape(text),
             "</text>");
}

std::string cut_to(const std::string& text, double room) { return cut(text, std::max<int64_t>(2, int64_t(room / 7))); }

std::string text_within(double x, double y, const std::string& text, double end) {
  const std::string shown = cut_to(text, end - 2);
  const double half = text_width(shown) / 2;
  return text_at(std::max(half + 2, std::min(x, end - half)), y, shown, "label middle");
}

double text_width(std::string_view text) { return 7.0 * double(code_points(text)); }

std::string draw_axes(const AxisRange& x_range, const AxisRange& y_range, const Scale& x, const Scale& y,
                      const Axis& x_axis, const Axis& y_axis) {
  std::string out = "<g class=\"axes\">";
  for (const Tick& tick : y_range.ticks) {
    const double at = y(tick.value);
    out += cat("<path class=\"grid\" d=\"M", coordinate(x.from), ",", coordinate(at), "H", coordinate(x.to), "\"/>");
    out += text_at(x.from - 8, at + 4, tick.label, "tick end");
  }
  double free_from = -1;
  for (const Tick& tick : x_range.ticks) {
    const double at = x(tick.value), half = text_width(tick.label) / 2;
    out += cat("<path class=\"mark\" d=\"M", coordinate(at), ",", coordinate(y.from), "v5\"/>");
    if (at - half < free_from) continue;
    out += text_at(at, y.from + 19, tick.label, "tick middle");
    free_from = at + half + 8;
  }
  out += cat("<path class=\"base\" d=\"M", coordinate(x.from), ",", coordinate(y.from), "H", coordinate(x.to), "\"/>");
  // Long ones leave the middle of the plot before they leave the picture, which ends some pixels right of the plot.
  const double end = x.to + 12;
  if (!x_axis.label.empty()) out += text_within((x.from + x.to) / 2, y.from + 38, x_axis.label, end);
  if (!y_axis.label.empty()) out += text_at(4, y.to - 16, cut_to(y_axis.label, end - 4), "label");
  return out + "</g>";
}

Legend draw_legend(const std::vector<LegendItem>& items, double left, double top, double width) {
  Legend legend;
  double x = left, y = top + 12;
  for (const LegendItem& item : items) {
    const std::string name = cut(item.name, int64_t(std::max(8.0, (width - 26) / 7)));
    const double needs = 26 + text_width(name);
    if (x > left && x + needs > left + width) x = left, y += 20;
    const std::string at = coordinate(y - 4);
    if (item.mark == "line")
      legend.svg += cat("<path class=\"line ", item.classes, "\" d=\"M", coordinate(x), ",", at, "h16\"/>");
    else if (item.mark == "dot")
      legend.svg +=
          cat("<circle class=\"dot ", item.classes, "\" cx=\"", coordinate(x + 8), "\" cy=\"", at, "\" r=\"4.5\"/>");
    else if (item.mark == "cross")
      legend.svg += cat("<path class=\"cross ", item.classes, "\" d=\"M", coordinate(x + 4), ",", coordinate(y - 8),
                        "l8,8m0,-8l-8,8\"/>");
    else if (item.mark == "pointer")
      legend.svg += cat("<path class=\"marker\" d=\"M", coordinate(x + 8), ",", coordinate(y), "l-5,-8h10z\"/>");
    else
      legend.svg += cat("<rect class=\"box ", item.classes, "\" x=\"", coordinate(x + 2), "\" y=\"", coordinate(y - 10),
                        "\" width=\"12\" height=\"12\" rx=\"2\"/>");
    legend.svg += text_at(x + 22, y, name, "name");
    x += needs + 14;
  }
  legend.height = items.empty() ? 0 : y + 8 - top;
  return legend;
}

std::string color_class(size_t i) { return "s" + std::to_string(i % 8) + (i < 8 ? "" : " again"); }

}  // namespace lithe::report
