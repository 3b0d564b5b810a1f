#include "lithe/report/chart.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "lithe/report/scale.h"
#include "tests/support/text.h"

namespace lithe::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

using kit::contains;

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::vector<std::string> labels(const AxisRange& range) {
  std::vector<std::string> all;
  for (const Tick& tick : range.ticks) all.push_back(tick.label);
  return all;
}

LineChart line(std::vector<double> x, std::vector<double> y) {
  LineChart chart;
  Series series{"", std::move(x), std::move(y)};
  series.label_last = false;
  chart.series = {series};
  return chart;
}

using Labels = std::vector<std::string>;

TEST(AxisRange, LinearTicksAreOneTwoOrFive) {
  EXPECT_EQ(labels(axis_range({0, 10}, {}, 5, Fit::rounded)), (Labels{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels(axis_range({3.4, 9.1}, {}, 5, Fit::rounded)), (Labels{"4", "6", "8", "10"}));
  const AxisRange range = axis_range({3.4, 9.1}, {}, 5, Fit::rounded);
  EXPECT_DOUBLE_EQ(range.low, 3);
  EXPECT_DOUBLE_EQ(range.high, 10);
  EXPECT_EQ(labels(axis_range({-0.02, 0.031}, {}, 5, Fit::exact)), (Labels{"-0.02", "0", "0.02"}));
  EXPECT_EQ(labels(axis_range({1000.01, 1000.03}, {}, 4, Fit::exact)),
            (Labels{"1,000.01", "1,000.015", "1,000.02", "1,000.025", "1,000.03"}));
}

TEST(AxisRange, LogarithmicTicks) {
  const Axis log{"", Quantity::number, true};
  EXPECT_EQ(labels(axis_range({1, 100}, log, 8, Fit::exact)), (Labels{"1", "2", "5", "10", "20", "50", "100"}));
  EXPECT_EQ(labels(axis_range({1e-3, 1e5}, log, 5, Fit::exact)), (Labels{"0.01", "1", "100", "10,000"}));
  EXPECT_EQ(labels(axis_range({3, 3.5}, log, 5, Fit::exact)), (Labels{"3", "3.1", "3.2", "3.3", "3.4", "3.5"}));
  EXPECT_EQ(labels(axis_range({0.1, 6}, log, 5, Fit::exact)), (Labels{"0.1", "0.2", "0.5", "1", "2", "5"}));
  EXPECT_EQ(labels(axis_range({3e4, 3e7}, {"", Quantity::bytes, true}, 5, Fit::exact)),
            (Labels{"32 KiB", "256 KiB", "2 MiB", "16 MiB"}));
  const AxisRange rounded = axis_range({0.03, 70}, log, 5, Fit::rounded);
  EXPECT_DOUBLE_EQ(rounded.low, 0.02);
  EXPECT_DOUBLE_EQ(rounded.high, 100);
}

TEST(AxisRange, BytesStepInBinaryUnits) {
  const Axis bytes{"", Quantity::bytes};
  const double GiB = 1024.0 * 1024 * 1024;
  const std::string space = "\xC2\xA0";
  EXPECT_EQ(labels(axis_range({0, 2 * GiB}, bytes, 4, Fit::exact)),
            (Labels{"0", "512" + space + "MiB", "1" + space + "GiB", "1.5" + space + "GiB", "2" + space + "GiB"}));
}

TEST(AxisRange, ExtremeValuesKeepARange) {
  for (const std::vector<double>& values : std::vector<std::vector<double>>{{},
                                                                            {0},
                                                                            {5},
                                                                            {-1e300, 1e300},
                                                                            {1e-310},
                                                                            {kNaN, kInfinity},
                                                                            {1e17, 1e17 + 16},
                                                                            {std::numeric_limits<double>::max()}})
    for (const bool log : {false, true})
      for (const Fit fit : {Fit::exact, Fit::padded, Fit::rounded}) {
        const Axis axis{"", Quantity::number, log};
        const AxisRange range = axis_range(values, axis, 5, fit);
        EXPECT_LT(range.low, range.high);
        EXPECT_TRUE(std::isfinite(range.low) && std::isfinite(range.high));
        EXPECT_LT(range.ticks.size(), 20u);
      }
}

// 400 wide: x from 26 (two digits and the margin) to 384, y from 292 up to 12.
TEST(LineChart, MapsKnownValuesToKnownPixels) {
  EXPECT_TRUE(contains(svg(line({0, 5, 10}, {0, 2.5, 10}), 400), "d=\"M26,292L205,222L384,12\""));
  EXPECT_TRUE(contains(svg(line({0, 5, 10}, {0, 2.5, 10}), 400), "data-x=\"0 10 26 384\" data-y=\"0 10 292 12\""));
}

TEST(LineChart, LogarithmicAxes) {
  LineChart chart = line({1, 10, 100}, {1, 10, 100});
  chart.x.log = chart.y.log = true;
  EXPECT_TRUE(contains(svg(chart, 400), "d=\"M33,292L208.5,152L384,12\""));
}

TEST(LineChart, SmoothingDrawsTheAverageOverTheFaintValues) {
  LineChart chart = line({0, 1, 2, 3, 4}, {0, 10, 0, 10, 0});
  chart.series[0].smoothing = 0.2;  // one neighbour on each side; at the first point none, at the last one only one
  const std::string out = svg(chart, 400);
  EXPECT_TRUE(contains(out, "class=\"line raw s0\" d=\"M26,292L115.5,12L205,292L294.5,12L384,292\""));
  EXPECT_TRUE(contains(out, "d=\"M26,292L115.5,198.67L205,105.33L294.5,198.67L384,152\""));
}

TEST(LineChart, ValuesThatAreNotFiniteBreakTheLineAndAreMarked) {
  const std::string out = svg(line({0, 1, 2, 3}, {0, kNaN, 10, 5}), 400);
  EXPECT_TRUE(contains(out, "d=\"M26,312h0M264.67,32L384,172\"")) << out;
  EXPECT_TRUE(contains(out, "<path class=\"cross\" d=\"M141.33,33l8,8"));
  EXPECT_TRUE(contains(out, "1 value not finite"));
  EXPECT_FALSE(contains(out, "nan"));
  EXPECT_FALSE(contains(out, "inf"));
}

TEST(LineChart, OnePointNoPointsAndNothingFinite) {
  EXPECT_TRUE(contains(svg(line({7}, {3.5}), 400), "h0\""));
  EXPECT_TRUE(contains(svg(line({}, {}), 400), "no values to draw"));
  EXPECT_TRUE(contains(svg(LineChart{}, 400), "no values to draw"));
  const std::string out = svg(line({1, 2, kNaN}, {kNaN, -kInfinity, 3}), 400);
  EXPECT_TRUE(contains(out, "3 values not finite"));
  EXPECT_EQ(count(out, "<title>"), 2u);  // the third has no place along x
  LineChart log = line({1, 2}, {0, -1});
  log.y.log = true;
  EXPECT_TRUE(contains(svg(log, 400), "2 values not finite or not positive"));
}

TEST(LineChart, LabelsMinimumAndLast) {
  LineChart chart = line({1, 2, 3}, {5, 2.25, 4.5});
  chart.series[0].label_last = chart.series[0].label_min = true;
  EXPECT_TRUE(contains(svg(chart, 400), ">min 2.25</text>"));
  EXPECT_TRUE(contains(svg(chart, 400), ">4.5</text>"));
  chart.series[0].y = {5, 4, 3};  // the last is the lowest: one label
  EXPECT_FALSE(contains(svg(chart, 400), "min"));
}

TEST(LineChart, ManyPointsKeepTheExtremesOfEachPixel) {
  std::vector<double> x, y;
  for (int i = 0; i < 100000; ++i) x.push_back(i), y.push_back(i == 43210 ? 100 : i % 2);
  const std::string out = svg(line(x, y), 400);
  EXPECT_LT(out.size(), 40000u);
  EXPECT_TRUE(contains(out, ",12L"));  // the single peak of 100 reaches the top
}

TEST(LineChart, NamesAreEscapedAndLengthsChecked) {
  LineChart chart = line({1, 2}, {1, 2});
  chart.title = "\"><script>";
  chart.series[0].name = "<b>\"'";
  chart.series.push_back(chart.series[0]);
  chart.x.label = chart.y.label = "<i>";
  const std::string out = svg(chart, 400);
  for (const char* markup : {"<script", "<b>", "<i>"}) EXPECT_FALSE(contains(out, markup)) << markup;
  chart.series[0].y.pop_back();
  EXPECT_THROW(svg(chart, 400), Error);
}

TEST(ScatterChart, LinesAreDrawnWithTheirLabelsAlongThem) {
  ScatterChart chart;
  chart.x.log = chart.y.log = true;
  chart.points = {{"a", 1, 2}};
  chart.lines = {{.label = "rises <fast>", .x = {1, 10}, .y = {1, 10}}, {.label = "level", .x = {1, 10}, .y = {5, 5}}};
  const std::string text = svg(chart, 800);
  EXPECT_EQ(count(text, "class=\"roof\""), 2);
  EXPECT_NE(text.find("rotate(0)\">level<"), std::string::npos);
  EXPECT_NE(text.find(">rises &lt;fast&gt;<"), std::string::npos);
  EXPECT_NE(text.find("rotate(-"), std::string::npos);
  chart.lines[0].y.pop_back();
  EXPECT_THROW(svg(chart, 800), Error);
  chart.lines[0].y.push_back(0);  // a logarithmic axis has no place for it
  EXPECT_THROW(svg(chart, 800), Error);
}

// Of a line that rises steeply the label begins where no point is.
TEST(ScatterChart, ALabelOfALineHidesNoPoint) {
  ScatterChart chart;
  chart.points = {{"", 5, 1}, {"", 0, 0}, {"", 10, 10}};
  chart.lines = {{.label = "budget", .x = {5, 5}, .y = {0, 10}}};
  const auto begin = [&] {
    const std::string out = svg(chart, 800);
    const size_t at = out.find(',', out.find("halo\" transform=\"translate(")) + 1;
    return std::stod(out.substr(at));
  };
  const double beside = begin();
  chart.points[0].x = 3;
  EXPECT_LT(beside, begin() - 5);  // further up
}

TEST(ScatterChart, NumbersOfPointsAreWrittenInThem) {
  ScatterChart chart;
  for (int i = 1; i < 9; ++i) chart.points.push_back({.label = "chain", .x = 1 + 0.01 * i, .y = 5, .number = i});
  const std::string out = svg(chart, 420);
  EXPECT_EQ(count(out, "inside middle"), 8u);
  EXPECT_TRUE(contains(out, ">8</text>"));
  EXPECT_FALSE(contains(out, ">chain</text>"));
}

TEST(ScatterChart, PointsErrorBarsAndLabels) {
  ScatterChart chart;
  chart.points = {{"low", 0, 0, 0, 0, 0}, {"high", 100, 100, 0, 0, 0}, {"lost", 50, kNaN, 0, 0, 0}};
  const std::string out = svg(chart, 433);  // x from 33 to 417 for -6 to 106
  EXPECT_TRUE(contains(out, "cx=\"53.57\"")) << out;
  EXPECT_TRUE(contains(out, "cx=\"396.43\""));
  EXPECT_TRUE(contains(out, ">low</text>"));
  EXPECT_TRUE(contains(out, "cannot be drawn: lost"));
  EXPECT_EQ(count(out, "<circle"), 2u);
  chart.points[0].y_error = 2;
  EXPECT_EQ(count(svg(chart, 433), "class=\"error"), 1u);
  chart.points[0].group = 1;
  EXPECT_THROW(svg(chart, 433), Error);
}

// Where a text of the picture begins and ends, by the estimate of its width.
void expect_texts_inside(const std::string& out, int width) {
  const auto attribute = [](const std::string& tag, const std::string& name) {
    const size_t at = tag.find(" " + name + "=\"");
    return at == std::string::npos
               ? std::string()
               : tag.substr(at + name.size() + 3, tag.find('"', at + name.size() + 3) - at - name.size() - 3);
  };
  for (size_t at = out.find("<text"); at != std::string::npos; at = out.find("<text", at + 1)) {
    const size_t open = out.find('>', at), close = out.find("</text>", at);
    const std::string tag = out.substr(at, open - at), classes = attribute(tag, "class"), x = attribute(tag, "x");
    if (x.empty()) continue;  // turned along a line
    const double long_ = text_width(out.substr(open + 1, close - open - 1)),
                 begin = std::stod(x) - (contains(classes, "middle") ? long_ / 2
                                         : contains(classes, "end")  ? long_
                                                                     : 0);
    EXPECT_GE(begin, 0) << tag;
    EXPECT_LE(begin + long_, width) << out.substr(at, close - at);
  }
}

TEST(LineChart, FewMeasuredPointsAreTheTicks) {
  LineChart chart = line({128, 384, 1000}, {1, 2, 3});
  chart.series[0].dots = true;
  for (const int width : {420, 1200}) {
    const std::string out = svg(chart, width);
    for (const char* tick : {">128<", ">384<", ">1,000<"}) EXPECT_TRUE(contains(out, tick)) << tick;
    EXPECT_FALSE(contains(out, ">200<"));
  }
  chart.series[0].dots = false;
  EXPECT_FALSE(contains(svg(chart, 420), ">384<"));
}

TEST(LineChart, LongLabelsStayInside) {
  LineChart chart = line({1, 2}, {123456789, 123456788});
  chart.series[0].label_last = true;
  chart.x.label = "the number of tokens that stand before the one whose loss is measured, in windows";
  chart.y.label = "held-out loss, in nats per token of the validation text, without the first window";
  for (const int width : {370, 420, 1200}) expect_texts_inside(svg(chart, width), width);
}

TEST(ScatterChart, ALabelWithoutAPlaceIsANumberThatTheLegendExplains) {
  ScatterChart chart;
  chart.x.label = "what is kept of the tokens before, in bytes a sequence, behind 1,024 tokens";
  for (int i = 0; i < 9; ++i)
    chart.points.push_back({cat("a variant with a long name ", i), 1 + 0.01 * i, 5 + 0.01 * (i % 3), 0, 0, i}),
        chart.groups.push_back(chart.points.back().label);
  for (const int width : {420, 1200}) {
    const std::string out = svg(chart, width);
    expect_texts_inside(out, width);
    for (const ScatterPoint& point : chart.points)
      EXPECT_TRUE(contains(out, point.label + "</text>") || contains(out, ": " + point.label + "</text>"))
          << point.label;
    EXPECT_EQ(count(out, "inside middle"), count(out, "class=\"name\"") - (9 - count(out, "inside middle")));
  }
  EXPECT_GT(count(svg(chart, 420), "inside middle"), 3u);
}

TEST(BarChart, StackedWidthsFollowTheValues) {
  BarChart chart;
  chart.stacked = true;
  chart.series = {"p", "q"};
  chart.bars = {{"a", {3, 6}, 4.5}};
  chart.marker_name = "peak";
  const std::string out = svg(chart, 500);  // x from 23 to 477 for 0 to 9
  EXPECT_TRUE(contains(out, "x=\"23\" y=\"30\" width=\"151.33\"")) << out;
  EXPECT_TRUE(contains(out, "x=\"174.33\" y=\"30\" width=\"302.67\""));
  EXPECT_TRUE(contains(out, "<path class=\"marker\" d=\"M250,29l"));
  EXPECT_TRUE(contains(out, ">9</text>"));
  chart.bars[0].values = {3, -1};
  EXPECT_THROW(svg(chart, 500), Error);
  chart.bars[0].values = {3};
  EXPECT_THROW(svg(chart, 500), Error);
}

TEST(BarChart, GroupedBarsStartAtZeroAndMarkWhatIsNotFinite) {
  BarChart chart;
  chart.series = {"p", "q", "r"};
  chart.bars = {{"a", {-5, 5, kInfinity}, {}}};
  const std::string out = svg(chart, 500);  // x from 23 to 470 for -5 to 5
  EXPECT_TRUE(contains(out, "x=\"23\" y=\"30\" width=\"223.5\"")) << out;
  EXPECT_TRUE(contains(out, "x=\"246.5\" y=\"49\" width=\"223.5\""));
  EXPECT_TRUE(contains(out, "bad\" x=\"252.5\" y=\"80\">∞</text>"));
}

TEST(HeatMap, MergesCellsOfOneShadeAndKeepsValues) {
  HeatMap chart;
  chart.rows = {"a", " b"};
  chart.columns = {"<", "y\n", "z"};
  chart.values = {1, 0, 0.5, kNaN, 1, 7};
  const std::string out = svg(chart, 400);
  EXPECT_TRUE(contains(out, "stroke-opacity=\"1\" d=\"M0,0.5h1M1,1.5h2\"")) << out;
  EXPECT_TRUE(contains(out, "stroke-opacity=\"0.5\" d=\"M2,0.5h1\""));
  EXPECT_TRUE(contains(out, "class=\"cell bad\" d=\"M0,1.5h1\""));
  EXPECT_TRUE(contains(out, "data-cells=\"fe007ffffefe\""));
  EXPECT_TRUE(contains(out, ">·b<") && contains(out, ">&lt;<") && contains(out, ">y↵<"));
  chart.values[2] = 0.25;
  chart.root = true;  // sqrt(0.25)
  EXPECT_TRUE(contains(svg(chart, 400), "stroke-opacity=\"0.5\" d=\"M2,0.5h1\""));
  EXPECT_TRUE(contains(svg(chart, 400), "data-cells=\"fe0040"));
  chart.values.pop_back();
  EXPECT_THROW(svg(chart, 400), Error);
  EXPECT_TRUE(contains(svg(HeatMap{}, 400), "</svg>"));
}

TEST(IntervalChart, DrawsRowsAndMarksWhatDecides) {
  IntervalChart chart;
  chart.title = "Loss <b>";
  chart.below = "better";
  chart.above = "worse";
  chart.rows = {{"a & b", -0.2, -0.3, -0.1, true}, {"c", 0.1, -INFINITY, INFINITY, false}};
  const std::string out = svg(chart, 600);
  EXPECT_NE(out.find("a &amp; b"), std::string::npos);
  EXPECT_EQ(out.find("<b>"), std::string::npos);
  EXPECT_NE(out.find("error s0"), std::string::npos);  // decides
  EXPECT_EQ(out.find("error s7"), std::string::npos);  // an unknown interval has no bar
  EXPECT_NE(out.find("dot s7"), std::string::npos);
  EXPECT_NE(out.find("interval unknown"), std::string::npos);
  EXPECT_NE(out.find("better"), std::string::npos);
  EXPECT_NE(svg(IntervalChart{}, 300).find("<svg"), std::string::npos);
}

TEST(IntervalChart, WordsBesideTheLineStayInside) {
  IntervalChart chart;
  chart.below = "lower loss than the baseline";
  chart.above = "higher loss than the baseline";
  chart.x.label = "difference of the losses to that of the baseline, in nats per token, with its interval";
  chart.rows = {{"a variant whose name is longer than the picture is wide, so that it must be cut", 1, 0.5, 1.5, true}};
  for (const int width : {370, 420, 1200}) expect_texts_inside(svg(chart, width), width);
}

}  // namespace
}  // namespace lithe::report
