// Axes of charts: from values to pixels, and where the ticks stand. Used by the charts of this folder only.
#pragma once

#include <string>
#include <vector>

#include "lithe/report/chart.h"

namespace lithe::report {

/// True for values that an axis can show.
bool drawable(double value, const Axis& axis);

/// Maps [low, high] to the pixels [from, to], linearly or by logarithm.
struct Scale {
  double low = 0, high = 1;
  double from = 0, to = 1;
  bool log = false;
  double operator()(double value) const;
};

struct Tick {
  double value;
  std::string label;
};

/// The range of an axis, and ticks at 1, 2 or 5 times a power of ten (of 1024 for bytes).
struct AxisRange {
  double low = 0, high = 1;
  std::vector<Tick> ticks;
};

/// Where an axis ends: at the outermost values, a little beyond them, or at the next half tick (of a logarithmic axis:
/// at the next 1, 2 or 5 times a power of ten).
enum class Fit { exact, padded, rounded };

/// Covers the drawable values with about `count` ticks.
AxisRange axis_range(const std::vector<double>& values, const Axis& axis, int count, Fit fit);

/// What all charts share. `at` numbers are pixels.
std::string svg_open(int width, int height, const std::string& kind, const std::string& description);
std::string text_at(double x, double y, std::string_view text, const std::string& classes);

/// An upper estimate of the width of `text` at the charts' font size.
double text_width(std::string_view text);

/// As much of a text as has room, with a sign where it was cut.
std::string cut_to(const std::string& text, double room);
/// An axis label with its middle at x or as near as it can be between 0 and `end`.
std::string text_within(double x, double y, const std::string& text, double end);

/// The axes' grid, tick labels and axis labels of a plot area.
std::string draw_axes(const AxisRange& x_range, const AxisRange& y_range, const Scale& x, const Scale& y,
                      const Axis& x_axis, const Axis& y_axis);

/// A legend wrapped into `width`, starting at (left, top): coloured marks and names. `mark` is line, dot, cross,
/// pointer or box.
struct Legend {
  std::string svg;
  double height = 0;
};
struct LegendItem {
  std::string name;
  std::string classes;  // of the mark: "s0", "bad"
  std::string mark;
};
Legend draw_legend(const std::vector<LegendItem>& items, double left, double top, double width);

/// The classes of the i-th colour; after eight colours they repeat, dashed.
std::string color_class(size_t i);

}  // namespace lithe::report
