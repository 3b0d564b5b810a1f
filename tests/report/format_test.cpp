#include "lithe/report/format.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lithe::report {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST(Escape, MarkupAndQuotesBecomeEntities) {
  EXPECT_EQ(escape("<script>alert(\"x\")</script>"), "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;");
  EXPECT_EQ(escape("it's & that"), "it&#39;s &amp; that");
  EXPECT_EQ(escape("&lt;"), "&amp;lt;");
}

TEST(Escape, InvalidUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(escape("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"), "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(escape("a\xFFz"), "a" + kBad + "z");
  EXPECT_EQ(escape("\xC3"), kBad);
  EXPECT_EQ(escape("\xC3<"), kBad + "&lt;");                         // a broken sequence does not swallow markup
  EXPECT_EQ(escape("\xC0\xAF"), kBad + kBad);                        // overlong
  EXPECT_EQ(escape("\xED\xA0\x80"), kBad + kBad + kBad);             // surrogate
  EXPECT_EQ(escape("\xF4\x90\x80\x80"), kBad + kBad + kBad + kBad);  // above U+10FFFF
  // The example of the Unicode standard, table 3-11.
  EXPECT_EQ(clean_text("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), kBad + kBad + kBad + kBad + "A");
}

TEST(Escape, ControlCharactersDoNotReachThePage) {
  EXPECT_EQ(escape(std::string("a\0b\x1B[0m\x7F", 8)), "a" + kBad + "b" + kBad + "[0m" + kBad);
  EXPECT_EQ(escape("a\tb\nc\r\nd\re"), "a\tb\nc\nd" + kBad + "e");
  EXPECT_EQ(escape("\xC2\x85"), kBad);
  EXPECT_EQ(escape("\xC2\xA0"), "\xC2\xA0");
}

TEST(Cut, CountsCodePoints) {
  EXPECT_EQ(cut("abc", 3), "abc");
  EXPECT_EQ(cut("abcd", 3), "ab…");
  EXPECT_EQ(cut("éééé", 2), "é…");
  EXPECT_EQ(code_points("é😀a"), 3);
}

TEST(FormatNumber, SignificantDigits) {
  EXPECT_EQ(format_number(3.14159), "3.142");
  EXPECT_EQ(format_number(12345.6), "12,346");
  EXPECT_EQ(format_number(-1234567), "-1,234,567");
  EXPECT_EQ(format_number(0.0006), "0.0006");
  EXPECT_EQ(format_number(6e-5), "6e-5");
  EXPECT_EQ(format_number(1.5e20), "1.5e20");
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(-0.0), "0");
  EXPECT_EQ(format_number(1000), "1,000");
  EXPECT_EQ(format_number(std::nan("")), "NaN");
  EXPECT_EQ(format_number(-std::numeric_limits<double>::infinity()), "-∞");
  EXPECT_EQ(format_integer(-9007199254740993), "-9,007,199,254,740,993");
  EXPECT_EQ(format_integer(999), "999");
}

TEST(Format, UnitsOfCountsBytesAndTime) {
  const std::string space = "\xC2\xA0";
  EXPECT_EQ(format(5262592, Quantity::count), "5.26" + space + "M");
  EXPECT_EQ(format(999, Quantity::count), "999");
  EXPECT_EQ(format(999999, Quantity::count), "1" + space + "M");
  EXPECT_EQ(format(1536.0 * 1024 * 1024, Quantity::bytes), "1.5" + space + "GiB");
  EXPECT_EQ(format(1023, Quantity::bytes), "1,023" + space + "B");
  EXPECT_EQ(format(-2048, Quantity::bytes), "-2" + space + "KiB");
  EXPECT_EQ(format(0.315, Quantity::seconds), "315" + space + "ms");
  EXPECT_EQ(format(12.34, Quantity::seconds), "12.3" + space + "s");
  EXPECT_EQ(format(59.99, Quantity::seconds), "1" + space + "min");
  EXPECT_EQ(format(252, Quantity::seconds), "4" + space + "min 12" + space + "s");
  EXPECT_EQ(format(7500, Quantity::seconds), "2" + space + "h 5" + space + "min");
  EXPECT_EQ(format(90000, Quantity::seconds), "1" + space + "d 1" + space + "h");
  EXPECT_EQ(format(std::nan(""), Quantity::bytes), "NaN");
}

TEST(Coordinate, TwoDecimalsWithoutTrailingZeros) {
  EXPECT_EQ(coordinate(1), "1");
  EXPECT_EQ(coordinate(1.005001), "1.01");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(1234.5), "1234.5");
}

}  // namespace
}  // namespace lithe::report
