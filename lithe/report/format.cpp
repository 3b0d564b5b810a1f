#include "lithe/report/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace lithe::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD", kEllipsis = "\xE2\x80\xA6", kNoBreakSpace = "\xC2\xA0";

// How many bytes at the front of `text` make one code point; when they do not, `valid` is false and the bytes are the
// longest broken prefix that one replacement character stands for (Unicode 3.9, best practice for U+FFFD).
struct Step {
  size_t bytes;
  bool valid;
};
Step next_code_point(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : uint8_t(0); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < low || at(1) > high) return {1, false};
  for (size_t i = 2; i < size; ++i)
    if (at(i) < 0x80 || at(i) > 0xBF) return {i, false};
  return {size, true};
}

bool is_control(std::string_view code_point) {
  const auto first = uint8_t(code_point[0]);
  if (code_point.size() == 1) return (first < 0x20 && first != '\t' && first != '\n') || first == 0x7F;
  return first == 0xC2 && uint8_t(code_point[1]) < 0xA0;
}

std::string fixed(double value, int decimals) {
  char buffer[400];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals);
  std::string text(buffer, result.ptr);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

void separate_thousands(std::string& text) {
  const size_t first = text[0] == '-' ? 1 : 0;
  for (size_t at = std::min(text.find('.'), text.size()); at > first + 3;) text.insert(at -= 3, ",");
}

// `value` rounded to significant digits, in fixed notation.
std::string significant(double value, int digits) {
  const double size = std::abs(value);
  const int exponent = size > 0 ? int(std::floor(std::log10(size) + 1e-12)) : 0;
  std::string text = fixed(value, std::max(0, digits - 1 - exponent));
  separate_thousands(text);
  return text;
}

std::string prefixed(double value, double base, int digits, const auto& units) {
  size_t unit = 0;
  // 999.6 would be printed as 1000 with three digits, so the next prefix starts a little below `base`.
  while (std::abs(value) >= base * 0.9995 && unit + 1 < units.size()) value /= base, ++unit;
  const std::string number = unit == 0 ? significant(value, 15) : significant(value, digits);
  return units[unit].empty() ? number : number + std::string(kNoBreakSpace) + std::string(units[unit]);
}

std::string duration(double seconds) {
  const std::string space(kNoBreakSpace);
  if (seconds < 0) return "-" + duration(-seconds);
  if (seconds > 0 && seconds < 0.9995e-3) return significant(seconds * 1e6, 3) + space + "µs";
  if (seconds > 0 && seconds < 0.9995) return significant(seconds * 1e3, 3) + space + "ms";
  if (seconds < 59.95) return significant(seconds, 3) + space + "s";
  if (seconds > 1e12) return format_number(seconds) + space + "s";
  const auto whole = int64_t(std::llround(seconds));
  const auto two = [&](int64_t large, const char* large_unit, int64_t small, const char* small_unit) {
    std::string text = format_integer(large) + space + large_unit;
    if (small) text += " " + std::to_string(small) + space + small_unit;
    return text;
  };
  if (whole < 3600) return two(whole / 60, "min", whole % 60, "s");
  if (whole < 86400) return two(whole / 3600, "h", whole % 3600 / 60, "min");
  return two(whole / 86400, "d", whole % 86400 / 3600, "h");
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Step step = next_code_point(text);
    const std::string_view code_point = text.substr(0, step.bytes);
    const bool line_end = text.starts_with("\r\n");
    if (!step.valid || (is_control(code_point) && !line_end))
      out += kReplacement;
    else if (!line_end)
      out += code_point;
    text.remove_prefix(step.bytes);
  }
  return out;
}

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : clean_text(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xC0) != 0x80; });
}

std::string cut(std::string_view text, int64_t count) {
  if (code_points(text) <= count) return std::string(text);
  size_t at = 0;
  for (int64_t seen = 0; at < text.size(); ++at)
    if ((uint8_t(text[at]) & 0xC0) != 0x80 && ++seen == count) break;
  return std::string(text.substr(0, at)) + std::string(kEllipsis);
}

std::string format_integer(int64_t value) {
  std::string text = std::to_string(value);
  separate_thousands(text);
  return text;
}

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "∞" : "-∞";
  const double size = std::abs(value);
  if (value == 0 || (size >= 1e-4 && size < 1e7)) return significant(value, digits);
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific, digits - 1);
  std::string text(buffer, result.ptr);
  const size_t e = text.find('e');
  std::string exponent = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  text.erase(e);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  const size_t zero = exponent[0] == '-' ? 1 : 0;
  if (exponent[zero] == '0') exponent.erase(zero, 1);
  return text + "e" + exponent;
}

std::string format(double value, Quantity quantity, int digits) {
  static constexpr std::array<std::string_view, 7> decimal = {"", "k", "M", "G", "T", "P", "E"};
  static constexpr std::array<std::string_view, 7> binary = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (!std::isfinite(value)) return format_number(value);
  switch (quantity) {
    case Quantity::number: return format_number(value, digits + 1);
    case Quantity::count: return prefixed(value, 1000, digits, decimal);
    case Quantity::bytes: return prefixed(value, 1024, digits, binary);
    case Quantity::seconds: return duration(value);
  }
  return {};
}

std::string coordinate(double value) { return fixed(value, 2); }

}  // namespace lithe::report
