#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/report/scale.h"

namespace lithe::report {
namespace {

constexpr int kLevels = 32;        // shades that are drawn
constexpr int64_t kLabelCut = 14;  // code points of a token label

// Spaces and line ends are tokens too, so they must be seen.
std::string token_label(const std::string& token) {
  std::string out;
  for (const char c : clean_text(token)) {
    if (c == ' ')
      out += "·";
    else if (c == '\n')
      out += "↵";
    else if (c == '\t')
      out += "→";
    else
      out += c;
  }
  return cut(out, kLabelCut);
}

double longest(const std::vector<std::string>& labels) {
  double width = 0;
  for (const std::string& label : labels) width = std::max(width, text_width(token_label(label)));
  return width;
}

// How strong the shade of a value is, 0 to 1.
double strength(const HeatMap& chart, double value) {
  const double clamped = std::clamp(value, 0.0, 1.0);
  return chart.root ? std::sqrt(clamped) : clamped;
}

}  // namespace

std::string svg(const HeatMap& chart, int width) {
  const size_t rows = chart.rows.size(), columns = chart.columns.size();
  check(chart.values.size() == rows * columns, "heat_map", "values must be [", rows, ",", columns, "], got ",
        chart.values.size(), " values");
  const double left = std::max(longest(chart.rows), text_width(chart.row_name + " ↓")) + 14,
               top = longest(chart.columns) + 30, side = width - left - 8;
  const double cell =
      columns ? std::min({28.0, side / double(columns), 1400.0 / double(std::max<size_t>(rows, 1))}) : 0;
  const int height = int(top + cell * double(rows) + 34);
  // Labels need 14 pixels; on denser maps each n-th token is named.
  const size_t every = cell > 0 ? std::max<size_t>(1, size_t(std::ceil(14 / cell))) : 1;

  // One path per shade of horizontal runs of cells, in units of cells: small even for long sequences.
  std::vector<std::string> shades(kLevels + 1);
  std::string undefined, data;
  for (size_t r = 0; r < rows; ++r) {
    const auto level = [&](size_t c) {
      const double value = chart.values[r * columns + c];
      return std::isnan(value) ? -1 : int(std::lround(strength(chart, value) * kLevels));
    };
    for (size_t c = 0; c < columns;) {
      const size_t begin = c;
      const int shade = level(c);
      while (c < columns && level(c) == shade) ++c;
      if (shade == 0) continue;
      (shade < 0 ? undefined : shades[size_t(shade)]) += cat("M", begin, ",", r, ".5h", c - begin);
    }
    for (size_t c = 0; c < columns; ++c) {
      const double value = chart.values[r * columns + c];
      const int byte = std::isnan(value) ? -1 : int(std::lround(std::clamp(value, 0.0, 1.0) * 254));
      static constexpr char hex[] = "0123456789abcdef";
      data += byte < 0 ? std::string("ff") : std::string{hex[byte >> 4], hex[byte & 15]};
    }
  }

  const std::string title = chart.title.empty() ? "Heat map" : chart.title;
  std::string out = svg_open(
      width, height, "heat",
      cat(title, ": ", rows, " rows (", chart.row_name, ") by ", columns, " columns (", chart.column_name, ")."));
  out += cat(" data-grid=\"", columns, " ", rows, " ", coordinate(left), " ", coordinate(top), " ",
             format_number(cell, 12), "\" data-cells=\"", data, "\">");
  out += text_at(left, 14, chart.column_name + " →", "label") +
         text_at(left - 8, top - 8, chart.row_name + " ↓", "label end");
  out += cat("<rect class=\"frame\" x=\"", coordinate(left), "\" y=\"", coordinate(top), "\" width=\"",
             coordinate(cell * double(columns)), "\" height=\"", coordinate(cell * double(rows)), "\"/>");
  out += cat("<g class=\"cells\" transform=\"translate(", coordinate(left), " ", coordinate(top), ") scale(",
             format_number(cell, 12), ")\">");
  for (int shade = 1; shade <= kLevels; ++shade)
    if (!shades[size_t(shade)].empty())
      out += cat("<path class=\"cell\" stroke-opacity=\"", coordinate(double(shade) / kLevels), "\" d=\"",
                 shades[size_t(shade)], "\"/>");
  if (!undefined.empty())
    out += cat("<path class=\"cell bad\" d=\"", undefined, "\"><title>not a number</title></path>");
  out += "</g><g class=\"rows\">";
  for (size_t r = 0; r < rows; r += every)
    out += text_at(left - 8, top + (double(r) + 0.5) * cell + 4, token_label(chart.rows[r]), "token end");
  out += "</g><g class=\"columns\">";
  for (size_t c = 0; c < columns; c += every) {
    const double x = left + (double(c) + 0.5) * cell + 4;
    out += cat("<text class=\"token\" transform=\"translate(", coordinate(x), " ", coordinate(top - 6),
               ") rotate(-90)\">", escape(token_label(chart.columns[c])), "</text>");
  }
  out += "</g>";
  // The key to the shades.
  const double y = height - 22, step = 4;
  for (int shade = 1; shade <= kLevels; ++shade)
    out += cat("<path class=\"key\" stroke-opacity=\"", coordinate(strength(chart, double(shade) / kLevels)),
               "\" d=\"M", coordinate(left + 12 + (shade - 1) * step), ",", y, "h", coordinate(step), "\"/>");
  out += text_at(left, y + 4, "0", "tick") + text_at(left + 14 + kLevels * step + 6, y + 4, "1", "tick");
  return out + "</svg>";
}

}  // namespace lithe::report
