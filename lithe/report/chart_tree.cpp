#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/report/scale.h"

namespace lithe::report {
namespace {

// Edges between words as half ellipses, the wide ones higher; `up` -1 above the words, 1 below.
std::string arcs(const std::vector<TreeChart::Edge>& edges, const std::vector<double>& centres, double base,
                 double step, int up, const std::vector<std::string>& words) {
  std::string out;
  for (const TreeChart::Edge& e : edges) {
    const double from = centres[size_t(e.from)], to = centres[size_t(e.to)], radius = (to - from) / 2,
                 height = std::min(step * double(e.to - e.from), 7 * step);
    out += cat("<path class=\"line ", color_class(e.right ? 0 : 1), "\"", e.right ? "" : " stroke-dasharray=\"4 3\"",
               " d=\"M", coordinate(from), ",", coordinate(base), "A", coordinate(radius), ",", coordinate(height),
               " 0 0 ", up < 0 ? 1 : 0, " ", coordinate(to), ",", coordinate(base), "\"><title>",
               escape(words[size_t(e.from)]), " - ", escape(words[size_t(e.to)]), "</title></path>");
  }
  return out;
}

int64_t widest(const std::vector<TreeChart::Edge>& edges) {
  int64_t out = 0;
  for (const TreeChart::Edge& e : edges) out = std::max<int64_t>(out, std::min<int64_t>(e.to - e.from, 7));
  return out;
}

}  // namespace

std::string svg(const TreeChart& chart, int width) {
  for (const auto* edges : {&chart.above, &chart.below})
    for (const TreeChart::Edge& e : *edges)
      check(e.from >= 0 && e.from < e.to && e.to < int64_t(chart.words.size()), "tree_chart",
            "an edge must go from a word to a later one of ", chart.words.size(), ", got ", e.from, " to ", e.to);
  constexpr double kStep = 13, kGap = 12;
  std::vector<std::string> words;
  double all = kGap;
  for (const std::string& word : chart.words)
    words.push_back(cut(clean_text(word), 18)), all += text_width(words.back()) + kGap;
  const double view = std::max(double(width), all), spread = (view - all) / double(std::max<size_t>(words.size(), 1));
  std::vector<double> centres;
  double x = kGap;
  for (const std::string& word : words) {
    const double room = text_width(word) + std::min(spread, 24.0);
    centres.push_back(x + room / 2);
    x += room + kGap;
  }
  const double top = 8 + kStep * double(widest(chart.above)), bottom = top + 22;
  const int height = int(bottom + kStep * double(widest(chart.below)) + 10);
  std::string out = svg_open(int(std::ceil(view)), height, "tree",
                             cat(chart.title.empty() ? "Tree" : chart.title, ": ", words.size(), " words.")) +
                    ">";
  out += arcs(chart.above, centres, top, kStep, -1, words) + arcs(chart.below, centres, bottom, kStep, 1, words);
  for (size_t i = 0; i < words.size(); ++i) out += text_at(centres[i], top + 15, words[i], "middle halo");
  return out + "</svg>";
}

}  // namespace lithe::report
