// Numbers and text as people read them, safe to stand in HTML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lithe::report {

/// What a number counts, which decides its unit prefix: none, decimal (5.24 M), binary (1.5 GiB), or time.
enum class Quantity { number, count, bytes, seconds };

/// `text` as valid UTF-8 without control characters: each broken sequence, and each control character but tab and
/// newline, becomes U+FFFD; "\r\n" becomes "\n".
std::string clean_text(std::string_view text);

/// clean_text with & < > " ' as entities: safe as HTML content and inside a quoted attribute.
std::string escape(std::string_view text);

/// The number of code points of valid UTF-8.
int64_t code_points(std::string_view text);

/// At most `count` code points of valid UTF-8, with "…" where something was cut.
std::string cut(std::string_view text, int64_t count);

/// Thousands separated by commas: 12,345,678.
std::string format_integer(int64_t value);

/// At most `digits` significant digits: 3.142, 12,345, 6e-5, NaN, ∞.
std::string format_number(double value, int digits = 4);

/// `value` in its unit: 5.24 M, 1.5 GiB, 4 min 12 s.
std::string format(double value, Quantity quantity, int digits = 3);

/// Rounded to 1/100 without trailing zeros, independent of the locale: coordinates and attributes.
std::string coordinate(double value);

}  // namespace lithe::report
