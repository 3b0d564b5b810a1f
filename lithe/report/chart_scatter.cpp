#include <algorithm>
#include <cmath>
#include <numbers>

#include "lithe/base/error.h"
#include "lithe/report/scale.h"

namespace lithe::report {
namespace {

struct Box {
  double left, top, right, bottom;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

constexpr double kRadius = 5, kNumbered = 8;

struct Place {
  Box box;
  double x;            // where the text is anchored
  const char* anchor;  // class
};

// The first place beside a point where its label hides nothing; nothing when there is none.
std::optional<Place> label_place(double x, double y, double width, const Box& plot, const std::vector<Box>& taken) {
  constexpr double aside = 9, height = 14;
  for (const double shift : {-8.0, -20.0, 6.0})  // beside the point, then above and below
    for (const bool right : {true, false}) {
      const double left = right ? x + aside : x - aside - width;
      const Place place{
          {left, y + shift, left + width, y + shift + height}, right ? x + aside : x - aside, right ? "" : " end"};
      const Box& box = place.box;
      if (box.left < plot.left || box.right > plot.right || box.top < plot.top || box.bottom > plot.bottom) continue;
      if (std::none_of(taken.begin(), taken.end(), [&](const Box& other) { return other.meets(box); })) return place;
    }
  return {};
}

// Lines with their labels, whose places are taken.
std::string draw_lines(const ScatterChart& chart, const Scale& x, const Scale& y, std::vector<Box>& taken) {
  std::string out;
  for (const ScatterLine& line : chart.lines) {
    if (line.x.size() < 2) continue;
    std::string path;
    for (size_t i = 0; i < line.x.size(); ++i)
      path += cat(i ? "L" : "M", coordinate(x(line.x[i])), ",", coordinate(y(line.y[i])));
    out += cat("<path class=\"roof\" d=\"", path, "\"/>");
    const double x0 = x(line.x[0]), y0 = y(line.y[0]), dx = x(line.x[1]) - x0, dy = y(line.y[1]) - y0,
                 length = std::hypot(dx, dy), shift = line.label_below ? 14 : -5;
    const bool flat = dy == 0;
    const std::string name = flat ? cut_to(line.label, length) : line.label;
    const double width = text_width(name);
    const double cosine = length > 0 ? dx / length : 1, sine = length > 0 ? dy / length : 0;
    const auto boxes_at = [&](double begin) {
      std::vector<Box> out;
      for (double along = 0; along < width; along += 7) {
        const double px = x0 + (begin + along) * cosine - shift * sine,
                     py = y0 + (begin + along) * sine + shift * cosine;
        out.push_back({px - 1, py - 11, px + 8, py + 3});
      }
      return out;
    };
    const auto is_free = [&](double begin) {
      for (const Box& box : boxes_at(begin))
        if (std::any_of(taken.begin(), taken.end(), [&](const Box& other) { return other.meets(box); })) return false;
      return true;
    };
    // Along the line, from its end or from its start, where it hides no point.
    const double first = flat ? length - width : 8, step = flat ? -10 : 10;
    const auto is_on_line = [&](double begin) { return begin >= 0 && begin + width <= length; };
    double begin = first;
    while (is_on_line(begin) && !is_free(begin)) begin += step;
    if (!is_on_line(begin)) begin = first;
    const double at = x0 + begin * cosine - shift * sine, over = y0 + begin * sine + shift * cosine;
    out += cat("<text class=\"label halo\" transform=\"translate(", coordinate(at), ",", coordinate(over), ") rotate(",
               coordinate(std::atan2(dy, dx) * 180 / std::numbers::pi), ")\">", escape(name), "</text>");
    for (const Box& box : boxes_at(begin)) taken.push_back(box);
  }
  return out;
}

std::string shown(double value, double error, const Axis& axis) {
  std::string text = format(value, axis.quantity, 4);
  if (error > 0) text += " ± " + format(error, axis.quantity, 2);
  return text;
}

// The whole chart, and the points whose labels found no place.
struct Layout {
  std::string svg;
  std::vector<size_t> lost;

  /// `numbers`: of points, from 1; 0 for those that have their label beside them.
  Layout(const ScatterChart& chart, const std::vector<ScatterPoint>& points, const std::vector<size_t>& numbers,
         const std::vector<double>& all_x, const std::vector<double>& all_y, int width) {
    std::vector<LegendItem> legend;
    for (size_t g = 0; g < chart.groups.size(); ++g) {
      const bool told = [&] {  // by the entry of the group's only point
        for (size_t i = 0; i < points.size(); ++i)
          if (numbers[i] && size_t(points[i].group) == g && points[i].label == chart.groups[g]) return true;
        return false;
      }();
      if (!told) legend.push_back({chart.groups[g], color_class(g), "dot"});
    }
    for (size_t n = 1, i = 0; i < points.size(); ++i)
      if (const auto at = std::find(numbers.begin(), numbers.end(), n); at != numbers.end()) {
        const ScatterPoint& point = points[size_t(at - numbers.begin())];
        legend.push_back({cat(n++, ": ", point.label), color_class(size_t(point.group)), "dot"});
      }
    for (const ScatterPoint& point : chart.points)
      if (!drawable(point.x, chart.x) || !drawable(point.y, chart.y))
        legend.push_back({"cannot be drawn: " + point.label, "", "cross"});

    const AxisRange x_range = axis_range(all_x, chart.x, width < 500 ? 4 : 7, Fit::padded),
                    y_range = axis_range(all_y, chart.y, 5, Fit::padded);
    double left = 12;
    for (const Tick& tick : y_range.ticks) left = std::max(left, 12 + text_width(tick.label));
    const double right = x_range.ticks.empty() ? 16 : std::max(16.0, text_width(x_range.ticks.back().label) / 2 + 2);
    const Legend names = draw_legend(legend, 4, 2, width - 8);
    const double top = 12 + names.height + (chart.y.label.empty() ? 0 : 24), bottom = 46;
    const int height = chart.height + int(names.height);
    const Scale x{x_range.low, x_range.high, left, width - right, chart.x.log},
        y{y_range.low, y_range.high, height - bottom, top, chart.y.log};

    std::string bars, dots, labels;
    std::vector<Box> taken;
    const auto number_of = [&](size_t i) { return points[i].number ? size_t(points[i].number) : numbers[i]; };
    const auto radius_of = [&](size_t i) { return number_of(i) ? kNumbered : kRadius; };
    for (size_t i = 0; i < points.size(); ++i) {
      const double at = x(points[i].x), over = y(points[i].y), r = radius_of(i) + 2;
      taken.push_back({at - r, over - r, at + r, over + r});
    }
    const std::string lines = draw_lines(chart, x, y, taken);
    const Box plot{x.from, y.to - 8, x.to + right - 2, y.from};
    for (size_t i = 0; i < points.size(); ++i) {
      const ScatterPoint& point = points[i];
      const double at = x(point.x), over = y(point.y);
      const std::string color = color_class(size_t(point.group));
      const auto end = [](double value, double otherwise, const Axis& axis) {
        return drawable(value, axis) ? value : otherwise;
      };
      if (point.x_error > 0)
        bars +=
            cat("<path class=\"error ", color, "\" d=\"M", coordinate(x(end(point.x - point.x_error, x.low, chart.x))),
                ",", coordinate(over), "H", coordinate(x(end(point.x + point.x_error, x.high, chart.x))), "\"/>");
      if (point.y_error > 0)
        bars += cat("<path class=\"error ", color, "\" d=\"M", coordinate(at), ",",
                    coordinate(y(end(point.y - point.y_error, y.low, chart.y))), "V",
                    coordinate(y(end(point.y + point.y_error, y.high, chart.y))), "\"/>");
      dots += cat("<circle class=\"dot ", color, "\" cx=\"", coordinate(at), "\" cy=\"", coordinate(over), "\" r=\"",
                  radius_of(i), "\"><title>", escape(point.label), "\n", escape(chart.x.label), ": ",
                  shown(point.x, point.x_error, chart.x), "\n", escape(chart.y.label), ": ",
                  shown(point.y, point.y_error, chart.y), "</title></circle>");
      if (number_of(i)) {
        dots += text_at(at, over + 4, cat(number_of(i)), "inside middle");
        continue;
      }
      const auto place = label_place(at, over, text_width(point.label), plot, taken);
      if (!place) {
        if (!point.label.empty()) lost.push_back(i);
        continue;
      }
      taken.push_back(place->box);
      labels += text_at(place->x, place->box.bottom - 2, point.label, std::string("name halo") + place->anchor);
    }
    std::string description =
        (chart.title.empty() ? "Scatter chart" : chart.title) + ": " + chart.y.label + " by " + chart.x.label + ".";
    for (const ScatterPoint& point : points)
      description += " " + point.label + ": " + shown(point.x, point.x_error, chart.x) + ", " +
                     shown(point.y, point.y_error, chart.y) + ".";
    svg = svg_open(width, height, "scatter", description) + ">" + names.svg +
          draw_axes(x_range, y_range, x, y, chart.x, chart.y);
    svg += lines + bars + dots + labels;
    if (points.empty())
      svg += text_at((left + width - right) / 2, (top + height - bottom) / 2, "no values to draw", "label middle");
    svg += "</svg>";
  }
};

}  // namespace

std::string svg(const ScatterChart& chart, int width) {
  std::vector<ScatterPoint> points;
  std::vector<double> all_x, all_y;
  for (const ScatterPoint& point : chart.points) {
    check(point.group == 0 || (point.group > 0 && size_t(point.group) < chart.groups.size()), "scatter_chart",
          "group of '", point.label, "' must be below ", chart.groups.size(), ", got ", point.group);
    if (!drawable(point.x, chart.x) || !drawable(point.y, chart.y)) continue;
    points.push_back(point);
    // An error bar reaches as far as the axis can show.
    for (const double x : {point.x - point.x_error, point.x + point.x_error})
      all_x.push_back(drawable(x, chart.x) ? x : point.x);
    for (const double y : {point.y - point.y_error, point.y + point.y_error})
      all_y.push_back(drawable(y, chart.y) ? y : point.y);
  }
  for (const ScatterLine& line : chart.lines) {
    check(line.x.size() == line.y.size(), "scatter_chart", "line '", line.label, "' has ", line.x.size(), " x and ",
          line.y.size(), " y");
    for (size_t i = 0; i < line.x.size(); ++i)
      check(drawable(line.x[i], chart.x) && drawable(line.y[i], chart.y), "scatter_chart", "line '", line.label,
            "' has a point that its axes cannot show");
    all_x.insert(all_x.end(), line.x.begin(), line.x.end());
    all_y.insert(all_y.end(), line.y.begin(), line.y.end());
  }
  // A point whose label has no place beside it gets a number, which the legend explains, and that may leave another
  // without its place.
  std::vector<size_t> numbers(points.size(), 0);
  size_t numbered = 0;
  while (true) {
    Layout layout(chart, points, numbers, all_x, all_y, width);
    if (layout.lost.empty()) return layout.svg;
    for (const size_t i : layout.lost) numbers[i] = ++numbered;
  }
}

}  // namespace lithe::report
