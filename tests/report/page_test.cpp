#include "lithe/report/page.h"

#include <cmath>

#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "tests/support/text.h"

namespace lithe::report {
namespace {

using kit::contains;

TEST(Page, EverythingGivenIsEscaped) {
  const std::string evil = "<script>alert('x')</script>\"&";
  Page page(evil, evil, evil);
  page.tiles({{evil, evil, evil, Tone::good}});
  page.section(evil);
  page.paragraph(evil);
  page.notice(Tone::bad, evil, {evil});
  page.table({evil, {{evil}}, {{evil}}, {evil}});
  page.preformatted(evil, evil);
  page.sample(evil, evil);
  page.collapsible(
      evil, [&] { page.paragraph(evil); }, false, evil);
  LineChart chart;
  chart.title = chart.detail = evil;
  page.chart(chart);
  const std::string html = page.html();
  EXPECT_FALSE(contains(html, "<script>alert"));
  size_t scripts = 0;
  for (size_t at = html.find("<script"); at != std::string::npos; at = html.find("<script", at + 1)) ++scripts;
  EXPECT_EQ(scripts, 1u);
  EXPECT_TRUE(contains(html, "<h1>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;</h1>"));
}

TEST(Page, AsksForNothingOutside) {
  Page page("p");
  page.chart(LineChart{});
  const std::string html = page.html();
  for (const char* request : {"http://", "https://", "url(", "@import", " src=", "fetch(", "XMLHttp"})
    EXPECT_FALSE(contains(html, request)) << request;
  EXPECT_TRUE(contains(html, "default-src 'none'"));
  EXPECT_TRUE(contains(html, "prefers-color-scheme:dark"));
  EXPECT_TRUE(contains(html, "@media print"));
  EXPECT_TRUE(contains(html, "<html lang=\"en\">"));
}

TEST(Page, TablesSortByValueNotByText) {
  Page page("p");
  Table table{"Sizes", {{"Name"}, {"Bytes", true}, {"Share", true}}, {}, {}};
  table.rows.push_back({"a", Cell(1536, Quantity::bytes), Cell::share(0.25)});
  table.rows.push_back({"b", Cell(std::nan(""), Quantity::bytes), Cell::share(0.00005)});
  table.rows.push_back({"c", Cell::integer(12345678), Cell::share(1)});
  table.total = {"all", "", ""};
  page.table(table);
  const std::string html = page.html();
  EXPECT_TRUE(contains(html, "<th scope=\"col\" class=\"n\"><button type=\"button\">Bytes</button></th>"));
  EXPECT_TRUE(contains(html, "<td class=\"n\" data-sort=\"1536\">1.5\xC2\xA0KiB</td>"));
  EXPECT_TRUE(contains(html, "<td class=\"n\" data-sort=\"\">NaN</td>"));
  EXPECT_TRUE(contains(html, "<td class=\"n\" data-sort=\"1.2345678e7\">12,345,678</td>"));
  EXPECT_TRUE(contains(html, "<td class=\"n share bar\" data-sort=\"0.25\" style=\"--part:0.25\">25\xC2\xA0%</td>"));
  EXPECT_TRUE(contains(html, ">&lt;0.1\xC2\xA0%</td>"));
  EXPECT_TRUE(contains(html, "<tfoot><tr><td class=\"text\">all</td>"));
  EXPECT_TRUE(contains(html, "setAttribute('aria-sort'"));
}

TEST(Page, ColumnsWithoutAnyValueAreLeftOut) {
  Page page("p");
  page.table(
      {"t", {{"name"}, {"empty"}, {"dashes", true}, {"some", true}}, {{"a", "", "–", "–"}, {"b", "", "–", "1"}}, {}});
  const std::string html = page.html();
  EXPECT_TRUE(contains(html, ">name</button>") && contains(html, ">some</button>"));
  EXPECT_FALSE(contains(html, ">empty</button>") || contains(html, ">dashes</button>"));
}

TEST(Page, ARowOfTheWrongLengthIsAnError) {
  Page page("p");
  EXPECT_THROW(page.table({"t", {{"a"}, {"b"}}, {{"x"}}, {}}), Error);
}

TEST(Page, ChartsComeInTwoWidthsWithTheirDescription) {
  Page page("p");
  LineChart chart;
  chart.title = "Loss";
  chart.x.label = "step";
  chart.y.label = "nats";
  chart.series = {{"training", {1, 2}, {5, 4}}};
  page.charts(chart, chart);
  const std::string html = page.html();
  EXPECT_TRUE(contains(html, "viewBox=\"0 0 510 ") && contains(html, "viewBox=\"0 0 370 "));
  EXPECT_TRUE(contains(html, "role=\"img\" aria-label=\"Loss: nats by step. training: from 5 to 4.\""));
}

TEST(Page, PreformattedKeepsLeadingLineEnds) {
  Page page("p");
  page.preformatted("\n  x", "code");
  EXPECT_TRUE(contains(page.html(), "aria-label=\"code\">\n\n  x</pre>"));
}

}  // namespace
}  // namespace lithe::report
