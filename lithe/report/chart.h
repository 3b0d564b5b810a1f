// Charts as inline SVG: no script needed to see them, colours from the page's style so that light and dark both work.
//
// Coordinates are in pixels of the SVG's own view box, which starts at (0, 0) in the top left corner. Values that
// cannot be drawn (not finite, beyond 1e300, or not positive on a logarithmic axis) are left out, break the line, and
// are marked at the edge of the plot.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/report/format.h"

namespace lithe::report {

struct Axis {
  std::string label;  // with its unit: "loss (nats per token)"
  Quantity quantity = Quantity::number;
  bool log = false;
  bool from_zero = false;  // show zero even when the values are far from it; not with log
};

struct Series {
  std::string name;
  std::vector<double> x, y;  // same length
  /// Above 0: the values are drawn faintly under their moving average over 2 * round(smoothing * size) + 1 neighbours
  /// (fewer at the ends). Short series, where that is one, are drawn as they are.
  double smoothing = 0;
  bool dots = false;       // a dot at each point, for few points
  bool label_min = false;  // writes the lowest value beside its point, unless it is the last one
  bool label_last = true;  // writes the last value (of the average when there is one) at the right
};

/// Something that happened at x, and took the run back to `back_to`: a dashed line over the whole height, and an arrow.
struct ChartEvent {
  double x = 0, back_to = 0;
  std::string label;  // shown under the pointer
};

struct LineChart {
  std::string title;
  std::string detail;  // what the reader should know beside the title; may be empty
  Axis x, y;
  std::vector<Series> series;
  int height = 320;
  std::string event_name;  // of events in the legend
  std::vector<ChartEvent> events;
};

struct ScatterPoint {
  std::string label;
  double x = 0, y = 0;
  double x_error = 0, y_error = 0;  // half length of the error bar; 0 draws none
  int group = 0;                    // index into ScatterChart::groups
  int number = 0;                   // written in the point, by which the text around knows it; 0: none
};

/// A line that points are seen against: a limit, a roof.
struct ScatterLine {
  std::string label;         // written along the line: above its start where it rises, above its end where it does not
  bool label_below = false;  // or below it
  std::vector<double> x, y;  // same length; within the ranges that points and lines span
};

struct ScatterChart {
  std::string title, detail;
  Axis x, y;
  std::vector<std::string> groups;  // names in the legend; may be empty
  std::vector<ScatterPoint> points;
  std::vector<ScatterLine> lines;
  int height = 380;
};

struct Bar {
  std::string label;
  std::vector<double> values;    // one per series; stacked bars need values of at least 0
  std::optional<double> marker;  // points at a value on the bar, for example a peak below the sum of the parts
};

/// Horizontal bars from zero, stacked or side by side. The height follows from the number of bars.
struct BarChart {
  std::string title, detail;
  std::string marker_name;  // legend of the markers
  Quantity quantity = Quantity::number;
  bool stacked = false;
  std::vector<std::string> series;
  std::vector<Bar> bars;
};

struct Interval {
  std::string label;
  double value = 0, low = 0, high = 0;  // low and high may be infinite: unknown
  bool clear = false;                   // the interval decides something: drawn in full colour
};

/// Estimates with their intervals, one a row, around a line at `origin`. The height follows from the number of rows.
struct IntervalChart {
  std::string title, detail;
  Axis x;
  double origin = 0;
  std::string below, above;  // what the two sides of the line mean; may be empty
  std::vector<Interval> rows;
};

/// A matrix of values from 0 (empty) to 1 (full colour); values outside are clamped. The height follows from the rows.
struct HeatMap {
  std::string title, detail;
  std::string row_name = "query", column_name = "key";
  std::vector<std::string> rows, columns;  // token labels
  std::vector<double> values;              // [rows, columns], row after row
  bool root = false;                       // shades follow the square root, so that small values are seen
};

/// A sentence with edges between its words, above it and below it.
struct TreeChart {
  struct Edge {
    int64_t from = 0, to = 0;  // words, from 0; from < to
    bool right = true;         // else drawn as a broken line in another colour
  };
  std::string title, detail;
  std::vector<std::string> words;
  std::vector<Edge> above, below;
};

/// `width` is the width of the view box: about the width on the screen, so that text keeps its size. Fails when the
/// lengths of a chart's vectors do not match.
std::string svg(const LineChart& chart, int width);
std::string svg(const ScatterChart& chart, int width);
std::string svg(const BarChart& chart, int width);
std::string svg(const HeatMap& chart, int width);
std::string svg(const IntervalChart& chart, int width);
std::string svg(const TreeChart& chart, int width);

/// Style and script that a page with charts holds once. The script adds values under the pointer.
std::string_view chart_style();
std::string_view chart_script();

}  // namespace lithe::report
