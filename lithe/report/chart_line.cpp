#include <algorithm>
#include <cmath>
#include <limits>

#include "lithe/base/error.h"
#include "lithe/report/scale.h"

namespace lithe::report {
namespace {

struct Pixel {
  double x, y;
};

// Pieces of a line between values that cannot be drawn; indices into the series.
struct Drawable {
  std::vector<std::vector<size_t>> pieces;
  std::vector<double> gaps;  // x of the values that cannot be drawn, where x itself can
  size_t left_out = 0;
};

Drawable drawable_points(const LineChart& chart, const Series& series) {
  Drawable result;
  bool open = false;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (drawable(series.x[i], chart.x) && drawable(series.y[i], chart.y)) {
      if (!open) result.pieces.emplace_back();
      result.pieces.back().push_back(i);
      open = true;
    } else {
      if (drawable(series.x[i], chart.x)) result.gaps.push_back(series.x[i]);
      ++result.left_out;
      open = false;
    }
  }
  return result;
}

// The mean of the neighbours within `half` places. At the start the window stays symmetric, so that a steep fall is not
// flattened; at the end it does not, so that the last value is not a single noisy one.
std::vector<double> moving_average(const std::vector<double>& y, const std::vector<size_t>& piece, int64_t half) {
  const auto n = int64_t(piece.size());
  std::vector<double> sums(size_t(n) + 1, 0), means(size_t(n), 0);
  for (int64_t i = 0; i < n; ++i) sums[size_t(i) + 1] = sums[size_t(i)] + y[piece[size_t(i)]];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t first = std::max<int64_t>(0, i - half), last = std::min({n - 1, i + half, 2 * i});
    means[size_t(i)] = (sums[size_t(last) + 1] - sums[size_t(first)]) / double(last - first + 1);
  }
  return means;
}

// Of the points in one column of pixels only the first, lowest, highest and last can be seen.
std::vector<Pixel> visible(const std::vector<Pixel>& points) {
  if (points.size() < 500) return points;
  std::vector<Pixel> kept;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin, low = begin, high = begin;
    for (; end < points.size() && std::floor(points[end].x) == std::floor(points[begin].x); ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    size_t previous = points.size();
    for (const size_t i : {begin, std::min(low, high), std::max(low, high), end - 1})
      if (i != previous) kept.push_back(points[previous = i]);
    begin = end;
  }
  return kept;
}

int64_t half_window(const Series& series) { return std::lround(series.smoothing * double(series.x.size())); }

// The last value that can be drawn, of the average where there is one.
double last_of(const Series& series, const Drawable& points) {
  const std::vector<size_t>& piece = points.pieces.back();
  return half_window(series) > 0 ? moving_average(series.y, piece, half_window(series)).back() : series.y[piece.back()];
}

// Ticks at the x of the points themselves, where they are few.
void tick_measured(AxisRange& range, std::vector<double> x, const Axis& axis, size_t most) {
  std::sort(x.begin(), x.end());
  x.erase(std::unique(x.begin(), x.end()), x.end());
  if (x.size() < 2 || x.size() > most) return;
  range.ticks.clear();
  for (const double value : x)
    range.ticks.push_back(
        {value, axis.quantity == Quantity::number ? format_number(value, 6) : format(value, axis.quantity, 4)});
}

std::string path(const std::vector<std::vector<Pixel>>& pieces) {
  std::string d;
  for (const auto& piece : pieces) {
    char command = 'M';
    for (const Pixel& point : piece) {
      d += command + coordinate(point.x) + "," + coordinate(point.y);
      command = 'L';
    }
    if (piece.size() == 1) d += "h0";  // a single point is drawn as the round end of the line
  }
  return d;
}

struct EndLabel {
  double y;
  std::string text, color;
};

// Moves labels apart vertically, within [top, bottom].
void spread(std::vector<EndLabel>& labels, double top, double bottom) {
  std::sort(labels.begin(), labels.end(), [](const EndLabel& a, const EndLabel& b) { return a.y < b.y; });
  constexpr double gap = 15;
  for (size_t i = 0; i < labels.size(); ++i) labels[i].y = std::max(labels[i].y, i ? labels[i - 1].y + gap : top);
  double limit = bottom;
  for (size_t i = labels.size(); i-- > 0; limit = labels[i].y - gap) labels[i].y = std::min(labels[i].y, limit);
}

std::string value_label(double value, const Axis& axis) {
  return axis.quantity == Quantity::number ? format_number(value) : format(value, axis.quantity);
}

struct Drawing {
  const LineChart& chart;
  Scale x, y;
  std::string lines, marks;
  std::vector<EndLabel> ends;

  std::vector<std::vector<Pixel>> pixels(const Drawable& points, const Series& series) const {
    std::vector<std::vector<Pixel>> all;
    for (const auto& piece : points.pieces) {
      auto& line = all.emplace_back();
      for (const size_t i : piece) line.push_back({x(series.x[i]), y(series.y[i])});
    }
    return all;
  }

  void draw(const Series& series, const Drawable& points, const std::string& color) {
    const std::string name = escape(series.name);
    auto line = pixels(points, series);
    const int64_t half = half_window(series);
    if (half > 0) {
      std::vector<std::vector<Pixel>> faint;
      for (const auto& piece : line) faint.push_back(visible(piece));
      lines += cat("<path class=\"line raw ", color, "\" d=\"", path(faint), "\"/>");
      for (size_t p = 0; p < line.size(); ++p) {
        const std::vector<double> means = moving_average(series.y, points.pieces[p], half);
        for (size_t i = 0; i < means.size(); ++i) line[p][i].y = y(means[i]);
      }
    }
    for (auto& piece : line) piece = visible(piece);
    lines += cat("<path class=\"line ", color, "\" data-name=\"", name, "\" d=\"", path(line), "\"/>");
    if (series.dots)
      for (const auto& piece : line)
        for (const Pixel& point : piece)
          marks += cat("<circle class=\"dot ", color, "\" cx=\"", coordinate(point.x), "\" cy=\"", coordinate(point.y),
                       "\" r=\"2.8\"/>");
    if (series.label_last && !points.pieces.empty()) {
      const double last = last_of(series, points);
      ends.push_back({y(last), value_label(last, chart.y), color});
    }
    if (series.label_min) label_min(series, points, color);
    double previous = -10;
    for (const double gap : points.gaps) {
      const double at = x(gap);
      if (at - previous < 3) continue;
      marks +=
          cat("<path class=\"cross\" d=\"M", coordinate(at - 4), ",", coordinate(y.to + 1), "l8,8m0,-8l-8,8\"><title>",
              name, ": cannot be drawn at ", escape(chart.x.label), " ", format_number(gap, 9), "</title></path>");
      previous = at;
    }
  }

  // An arrow at the top from x to where the run went back to.
  void draw(const ChartEvent& event) {
    if (!drawable(event.x, chart.x)) return;
    const double at = x(event.x), back = drawable(event.back_to, chart.x) ? x(event.back_to) : at, high = y.to + 6;
    marks += cat("<path class=\"event\" d=\"M", coordinate(at), ",", coordinate(y.from), "V", coordinate(y.to), "\"/>");
    marks += cat("<path class=\"cross\" d=\"M", coordinate(at), ",", coordinate(high), "H", coordinate(back));
    if (at - back > 6) marks += "l5,-4m-5,4l5,4";
    marks += cat("\"><title>", escape(event.label), "</title></path>");
  }

  void label_min(const Series& series, const Drawable& points, const std::string& color) {
    size_t best = series.y.size();
    for (const auto& piece : points.pieces)
      for (const size_t i : piece)
        if (best == series.y.size() || series.y[i] < series.y[best]) best = i;
    if (best == series.y.size()) return;
    const double at = x(series.x[best]), below = y(series.y[best]);
    marks +=
        cat("<circle class=\"ring ", color, "\" cx=\"", coordinate(at), "\" cy=\"", coordinate(below), "\" r=\"5\"/>");
    if (series.label_last && best == points.pieces.back().back()) return;
    const std::string text = "min " + value_label(series.y[best], chart.y);
    const double half = text_width(text) / 2;
    const double middle = std::clamp(at, x.from + half, std::max(x.from + half, x.to - half));
    marks += text_at(middle, below + 20 > y.from - 2 ? below - 12 : below + 20, text, "value middle halo " + color);
  }
};

std::string describe(const LineChart& chart, const std::vector<Drawable>& points) {
  std::string text = chart.title.empty() ? "Line chart" : chart.title;
  text += ": " + chart.y.label + (chart.x.label.empty() ? "" : " by " + chart.x.label) + ".";
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    if (points[s].pieces.empty()) {
      text += " " + series.name + ": no values.";
      continue;
    }
    const size_t first = points[s].pieces.front().front(), last = points[s].pieces.back().back();
    text += " " + series.name + ": from " + value_label(series.y[first], chart.y) + " to " +
            value_label(series.y[last], chart.y) + ".";
  }
  return text;
}

}  // namespace

std::string svg(const LineChart& chart, int width) {
  std::vector<Drawable> points;
  std::vector<double> all_x, all_y;
  std::vector<LegendItem> legend;
  size_t left_out = 0;
  double end_width = 0;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    check(series.x.size() == series.y.size(), "line_chart", "series '", series.name,
          "' must have as many x as y values, got ", series.x.size(), " and ", series.y.size());
    points.push_back(drawable_points(chart, series));
    for (const auto& piece : points.back().pieces)
      for (const size_t i : piece) all_x.push_back(series.x[i]), all_y.push_back(series.y[i]);
    // A value that cannot be drawn still has its place along x.
    all_x.insert(all_x.end(), points.back().gaps.begin(), points.back().gaps.end());
    if (!series.name.empty() && chart.series.size() > 1) legend.push_back({series.name, color_class(s), "line"});
    left_out += points.back().left_out;
    if (series.label_last && !points.back().pieces.empty())
      end_width = std::max({62.0, end_width, text_width(value_label(last_of(series, points.back()), chart.y)) + 12});
  }
  if (left_out)
    legend.push_back({cat(format_integer(int64_t(left_out)), left_out == 1 ? " value" : " values",
                          chart.y.log ? " not finite or not positive" : " not finite"),
                      "", "cross"});

  if (!chart.events.empty()) legend.push_back({chart.event_name, "", "cross"});
  for (const ChartEvent& event : chart.events)
    for (const double at : {event.x, event.back_to})
      if (drawable(at, chart.x)) all_x.push_back(at);

  const AxisRange y_range = axis_range(all_y, chart.y, chart.height < 260 ? 4 : 5, Fit::rounded);
  AxisRange x_range = axis_range(all_x, chart.x, width < 500 ? 4 : 8, Fit::exact);
  if (std::all_of(chart.series.begin(), chart.series.end(), [](const Series& s) { return s.dots; }))
    tick_measured(x_range, all_x, chart.x, width < 500 ? 6 : 10);
  double left = 12, right = std::max(16.0, end_width);
  for (const Tick& tick : y_range.ticks) left = std::max(left, 12 + text_width(tick.label));
  if (!x_range.ticks.empty()) right = std::max(right, text_width(x_range.ticks.back().label) / 2 + 2);
  const Legend names = draw_legend(legend, 4, 2, width - 8);
  const double top = 12 + names.height + (chart.y.label.empty() ? 0 : 24), bottom = chart.x.label.empty() ? 28 : 46;
  const int height = chart.height + int(names.height);

  Drawing drawing{chart,
                  {x_range.low, x_range.high, left, width - right, chart.x.log},
                  {y_range.low, y_range.high, height - bottom, top, chart.y.log},
                  {},
                  {},
                  {}};
  for (size_t s = 0; s < chart.series.size(); ++s) drawing.draw(chart.series[s], points[s], color_class(s));
  for (const ChartEvent& event : chart.events) drawing.draw(event);
  spread(drawing.ends, top + 4, height - bottom);

  const auto scale = [](const Scale& s) {
    return cat(format_number(s.low, 17), " ", format_number(s.high, 17), " ", coordinate(s.from), " ", coordinate(s.to),
               s.log ? " log" : "");
  };
  const auto unseparated = [](std::string text) {
    std::erase(text, ',');
    return text;
  };
  std::string out = svg_open(width, height, "lines", describe(chart, points));
  out += cat(" data-x=\"", unseparated(scale(drawing.x)), "\" data-y=\"", unseparated(scale(drawing.y)),
             "\" data-label=\"", escape(chart.x.label), "\" data-unit=\"",
             chart.y.quantity == Quantity::bytes   ? "bytes"
             : chart.y.quantity == Quantity::count ? "count"
                                                   : "number",
             "\">");
  out += names.svg + draw_axes(x_range, y_range, drawing.x, drawing.y, chart.x, chart.y);
  out += drawing.lines + drawing.marks;
  for (const EndLabel& label : drawing.ends)
    out += text_at(width - right + 9, label.y + 4, label.text, "value " + label.color);
  if (all_y.empty())
    out += text_at((left + width - right) / 2, (top + height - bottom) / 2, "no values to draw", "label middle");
  return out + "</svg>";
}

}  // namespace lithe::report
