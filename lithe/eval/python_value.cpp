#include "lithe/eval/python_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/eval/zero_shot_answers.h"
#include "lithe/text/hex.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

// The shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string text(buffer, end), sign;
  if (text.starts_with('-')) sign = "-", text.erase(0, 1);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  std::string digits = text.substr(0, e);
  std::erase(digits, '.');
  if (exponent < -4 || exponent >= 16) {
    if (digits.size() > 1) digits.insert(1, ".");
    const std::string power = std::to_string(std::abs(exponent));
    return cat(sign, digits, "e", exponent < 0 ? "-" : "+", power.size() < 2 ? "0" : "", power);
  }
  if (exponent < 0) return cat(sign, "0.", std::string(size_t(-exponent - 1), '0'), digits);
  if (digits.size() <= size_t(exponent) + 1)
    return cat(sign, digits, std::string(size_t(exponent) + 1 - digits.size(), '0'), ".0");
  return cat(sign, digits.substr(0, size_t(exponent) + 1), ".", digits.substr(size_t(exponent) + 1));
}

std::string escaped(uint32_t code_point) {
  return code_point < 0x100     ? "\\x" + hex(code_point, 2)
         : code_point < 0x10000 ? "\\u" + hex(code_point, 4)
                                : "\\U" + hex(code_point, 8);
}

std::string text_repr(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = utf8_unit(std::string_view(text).substr(at));
    const char c = text[at];
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\\' || c == quote)
      out += '\\', out += c;
    else if (c != ' ' && (is_control(unit.code_point) || is_white_space(unit.code_point)))  // not isprintable()
      out += escaped(unit.code_point);
    else
      out += text.substr(at, unit.length);
    at += unit.length;
  }
  return out + quote;
}

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}
  std::optional<Json> read() {
    Json out;
    skip();
    if (!value(out, 0)) return {};
    skip();
    if (at_ < text_.size()) return {};
    return out;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;

  void skip() {
    while (at_ < text_.size() && std::string_view(" \t\r\n\f").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view name) {
    if (!text_.substr(at_).starts_with(name)) return false;
    at_ += name.size();
    return true;
  }
  bool value(Json& out, int depth) {
    skip();
    if (at_ >= text_.size() || depth > 100) return false;
    const char c = text_[at_];
    if (c == '\'' || c == '"') return texts(out);
    if (c == '[' || c == '(') return list(out, c == '[' ? ']' : ')', depth);
    if (c == '{') return map(out, depth);
    if (word("True")) return out = true, true;
    if (word("False")) return out = false, true;
    if (word("None")) return out = nullptr, true;
    return number(out);
  }
  bool list(Json& out, char end, int depth) {
    ++at_;
    out = Json::array();
    bool comma = false;
    while (!take(end)) {
      Json item;
      if ((!out.empty() && !comma) || !value(item, depth + 1)) return false;
      out.push_back(std::move(item));
      comma = take(',');
    }
    if (end == ')' && out.size() == 1 && !comma) out = Json(out[0]);  // only in parentheses
    return true;
  }
  bool map(Json& out, int depth) {
    ++at_;
    out = Json::object();
    bool comma = true;
    while (!take('}')) {
      Json key, item;
      if (!comma || !value(key, depth + 1) || !take(':') || !value(item, depth + 1)) return false;
      out[python_text(key)] = std::move(item);
      comma = take(',');
    }
    return true;
  }
  bool number(Json& out) {
    const size_t begin = at_;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    const size_t digits = at_;
    while (at_ < text_.size() &&
           (std::isalnum(uint8_t(text_[at_])) || text_[at_] == '.' ||
            ((text_[at_] == '-' || text_[at_] == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E'))))
      ++at_;
    const std::string_view body = text_.substr(digits, at_ - digits);
    if (body.empty() || (!std::isdigit(uint8_t(body[0])) && body[0] != '.')) return false;
    const bool minus = text_[begin] == '-';
    int64_t whole = 0;
    const char* last = body.data() + body.size();
    if (const auto r = std::from_chars(body.data(), last, whole); r.ec == std::errc() && r.ptr == last) {
      if (body.size() > 1 && body[0] == '0' && whole != 0) return false;
      return out = minus ? -whole : whole, true;
    }
    double real = 0;
    if (const auto r = std::from_chars(body.data(), last, real); r.ec != std::errc() || r.ptr != last) return false;
    return out = minus ? -real : real, true;
  }
  // Texts that stand side by side are one.
  bool texts(Json& out) {
    std::string all;
    do {
      if (!text(all)) return false;
      skip();
    } while (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"'));
    out = all;
    return true;
  }
  bool text(std::string& out) {
    const char quote = text_[at_];
    const std::string_view three = text_.substr(at_, 3);
    const bool lines = three.size() == 3 && three[1] == quote && three[2] == quote;
    at_ += lines ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == quote && (!lines || text_.substr(at_, 3) == three)) return at_ += lines ? 3 : 1, true;
      if (c == '\n' && !lines) return false;
      if (c == '\\' ? !escape(out) : (out += c, ++at_, false)) return false;
    }
    return false;
  }
  bool escape(std::string& out) {
    if (++at_ >= text_.size()) return false;
    const char c = text_[at_++];
    static constexpr std::string_view kNames = "ntr\\'\"abfv", kAre = "\n\t\r\\'\"\a\b\f\v";
    if (const size_t at = kNames.find(c); at != std::string_view::npos) return out += kAre[at], true;
    if (c == '\n') return true;
    if (const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0) {
      uint32_t code = 0;
      const std::string_view hex = text_.substr(at_, size_t(digits));
      const auto r = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
      if (hex.size() < size_t(digits) || r.ptr != hex.data() + hex.size() || code > 0x10FFFF) return false;
      append_utf8(out, code);
      at_ += size_t(digits);
      return true;
    }
    out += '\\', out += c;
    return true;
  }
};

}  // namespace

std::string python_repr(const Json& value) {
  if (value.is_string()) return text_repr(value.get<std::string>());
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number_float()) return float_repr(value.get<double>());
  if (value.is_array()) {
    std::string out;
    for (const Json& one : value) out += (out.empty() ? "" : ", ") + python_repr(one);
    return "[" + out + "]";
  }
  if (value.is_object()) {
    std::string out;
    for (const auto& [key, one] : value.items())
      out += cat(out.empty() ? "" : ", ", text_repr(key), ": ", python_repr(one));
    return "{" + out + "}";
  }
  return dump(value);
}

std::string python_text(const Json& value) { return value.is_string() ? value.get<std::string>() : python_repr(value); }

std::optional<Json> python_literal(std::string_view text) { return LiteralReader(text).read(); }

bool python_equal(const Json& a, const Json& b) {
  if (a.is_array() && b.is_array())
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), python_equal);
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, one] : a.items())
      if (!b.contains(key) || !python_equal(one, b[key])) return false;
    return true;
  }
  const auto number = [](const Json& j) { return j.is_boolean() ? Json(int64_t(j.get<bool>())) : j; };
  return number(a) == number(b);
}

bool python_truth(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.is_null() && !value.empty();
}

std::optional<int64_t> python_integer(const Json& value) {
  if (value.is_boolean()) return int64_t(value.get<bool>());
  if (value.is_number_integer()) return value.get<int64_t>();
  return {};
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_unit(text.substr(at)).length;
    out.emplace_back(text.substr(at, length));
    at += length;
  }
  return out;
}

std::string python_strip(const std::string& text, bool left, bool right, const std::string* of) {
  const std::vector<std::string> all = characters_of(text), set = of ? characters_of(*of) : std::vector<std::string>();
  const auto goes = [&](const std::string& c) {
    return of ? std::find(set.begin(), set.end(), c) != set.end() : is_python_space(utf8_unit(c).code_point);
  };
  size_t begin = 0, end = all.size();
  while (left && begin < end && goes(all[begin])) ++begin;
  while (right && end > begin && goes(all[end - 1])) --end;
  std::string out;
  for (size_t i = begin; i < end; ++i) out += all[i];
  return out;
}

bool is_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace lithe
