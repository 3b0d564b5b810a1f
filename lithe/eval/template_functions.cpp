// Methods, filters and tests of templates, as Python and Jinja have them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include "lithe/base/error.h"
#include "lithe/eval/python_value.h"
#include "lithe/eval/template_nodes.h"
#include "lithe/eval/zero_shot_answers.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Given = TemplateArguments;

std::string cased(const std::string& text, bool upper) {
  std::string out;
  for_each_character(text, [&](uint32_t c) { upper ? append_upper_case(out, c) : append_lower_case(out, c); });
  return out;
}

std::string capitalized(const std::string& text) {
  const std::vector<std::string> all = characters_of(text);
  std::string rest;
  for (size_t i = 1; i < all.size(); ++i) rest += all[i];
  return all.empty() ? "" : cased(all[0], true) + cased(rest, false);
}

std::string replaced_in(const std::string& text, const std::string& from, const std::string& to, int64_t most) {
  std::string out;
  size_t at = 0;
  if (from.empty()) {  // between all characters
    for (const std::string& c : characters_of(text)) out += (most-- != 0 ? to : "") + c;
    return out + (most != 0 ? to : "");
  }
  for (size_t next; most != 0 && (next = text.find(from, at)) != std::string::npos; --most) {
    out += text.substr(at, next - at) + to;
    at = next + from.size();
  }
  return out + text.substr(at);
}

Json split_text(const std::string& text, const Json* separator, int64_t most, const std::string& place) {
  Json out = Json::array();
  if (separator && separator->is_string()) {
    const std::string by = separator->get<std::string>();
    check(!by.empty(), "eval", place, ": a template splits by an empty text");
    size_t at = 0;
    for (size_t next; most != 0 && (next = text.find(by, at)) != std::string::npos; --most) {
      out.push_back(text.substr(at, next - at));
      at = next + by.size();
    }
    out.push_back(text.substr(at));
    return out;
  }
  std::string word;
  const std::vector<std::string> all = characters_of(text);
  for (size_t i = 0; i < all.size(); ++i) {
    const bool space = is_python_space(utf8_unit(all[i]).code_point);
    if (!space && word.empty() && most == 0) {
      for (; i < all.size(); ++i) word += all[i];
      word = python_strip(word, false, true);
      break;
    }
    if (!space) word += all[i];
    if (space && !word.empty()) out.push_back(std::exchange(word, "")), --most;
  }
  if (!word.empty()) out.push_back(word);
  return out;
}

Json split_lines(const std::string& text) {
  Json out = Json::array();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n\v\f", at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return out;
}

std::string joined(const Json& list, const std::string& by, const std::string& place) {
  std::string out;
  bool first = true;
  for (const Json& one : items_of_value(list, place)) {
    out += (std::exchange(first, false) ? "" : by) + python_text(one);
  }
  return out;
}

int64_t count_of(const std::string& text, const std::string& what) {
  int64_t n = 0;
  for (size_t at = 0; !what.empty() && (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

// A place in bytes as a number of characters, -1 for none.
int64_t character_at(const std::string& text, size_t byte) {
  return byte == std::string::npos ? -1 : int64_t(characters_of(std::string_view(text).substr(0, byte)).size());
}

const std::map<std::string, std::function<Json(const std::string&, const Given&)>>& text_methods() {
  using S = const std::string&;
  const auto strips = [](bool left, bool right) {
    return [=](S t, const Given& g) -> Json {
      const Json* of = g.find(0, "chars");
      if (!of || of->is_null()) return python_strip(t, left, right);
      const std::string set = g.text(0, "chars", "");
      return python_strip(t, left, right, &set);
    };
  };
  static const std::map<std::string, std::function<Json(S, const Given&)>> all{
      {"strip", strips(true, true)},
      {"lstrip", strips(true, false)},
      {"rstrip", strips(false, true)},
      {"trim", strips(true, true)},
      {"lower", [](S t, const Given&) -> Json { return cased(t, false); }},
      {"upper", [](S t, const Given&) -> Json { return cased(t, true); }},
      {"capitalize", [](S t, const Given&) -> Json { return capitalized(t); }},
      {"title",
       [](S t, const Given&) -> Json {
         std::string out;
         bool inside = false;
         for_each_character(t, [&](uint32_t c) {
           const bool letter = is_alphanumeric(c) && !is_number(c);
           letter && !inside ? append_upper_case(out, c) : append_lower_case(out, c);
           inside = letter;
         });
         return out;
       }},
      {"replace",
       [](S t, const Given& g) -> Json {
         return replaced_in(t, g.text(0, "old", ""), g.text(1, "new", ""), g.integer(2, "count", -1));
       }},
      {"split",
       [](S t, const Given& g) -> Json {
         return split_text(t, g.find(0, "sep"), g.integer(1, "maxsplit", -1), *g.place);
       }},
      {"splitlines", [](S t, const Given&) -> Json { return split_lines(t); }},
      {"join",
       [](S t, const Given& g) -> Json { return joined(g.find(0, "") ? *g.find(0, "") : Json::array(), t, *g.place); }},
      {"startswith", [](S t, const Given& g) -> Json { return t.starts_with(g.text(0, "", "")); }},
      {"endswith", [](S t, const Given& g) -> Json { return t.ends_with(g.text(0, "", "")); }},
      {"find", [](S t, const Given& g) -> Json { return character_at(t, t.find(g.text(0, "", ""))); }},
      {"rfind", [](S t, const Given& g) -> Json { return character_at(t, t.rfind(g.text(0, "", ""))); }},
      {"index",
       [](S t, const Given& g) -> Json {
         const int64_t at = character_at(t, t.find(g.text(0, "", "")));
         check(at >= 0, "eval", *g.place, ": '", g.text(0, "", ""), "' of a document is not in '", t, "'");
         return at;
       }},
      {"count", [](S t, const Given& g) -> Json { return count_of(t, g.text(0, "", "")); }},
      {"isdigit", [](S t, const Given&) -> Json { return is_digits(t); }},
      {"zfill",
       [](S t, const Given& g) -> Json {
         const auto width = size_t(std::clamp<int64_t>(g.integer(0, "", 0), 0, 1000));
         return t.size() < width ? std::string(width - t.size(), '0') + t : t;
       }},
  };
  return all;
}

Json list_method(const Json& of, const std::string& name, const Given& given) {
  const Json* what = given.find(0, "");
  if (name == "index" && what) {
    for (size_t i = 0; i < of.size(); ++i)
      if (python_equal(of[i], *what)) return int64_t(i);
    fail("eval", *given.place, ": ", python_repr(*what), " of a document is not among ", python_repr(of));
  }
  if (name == "count" && what)
    return int64_t(std::count_if(of.begin(), of.end(), [&](const Json& one) { return python_equal(one, *what); }));
  if (name == "copy") return of;
  fail_usage("eval", *given.place, ": the method '", name, "' of a list is not supported in templates");
}

Json map_method(const Json& of, const std::string& name, const Given& given) {
  Json out = Json::array();
  if (name == "get") {
    const Json* key = given.find(0, "");
    const Json* other = given.find(1, "default");
    if (key && of.contains(python_text(*key))) return of[python_text(*key)];
    return other ? *other : Json();
  }
  check_usage(name == "items" || name == "keys" || name == "values", "eval", *given.place, ": the method '", name,
              "' of a dictionary is not supported in templates");
  for (const auto& [key, one] : of.items()) {
    if (name == "items") out.push_back(Json::array({key, one}));
    if (name == "keys") out.push_back(key);
    if (name == "values") out.push_back(one);
  }
  return out;
}

double number_of(const Json& value, const std::string& place) {
  if (value.is_boolean()) return double(value.get<bool>());
  check(value.is_number(), "eval", place, ": a template has ", python_repr(value), " where a number must stand");
  return value.get<double>();
}

bool less(const Json& a, const Json& b) {
  if (a.is_string() && b.is_string()) return cased(a.get<std::string>(), false) < cased(b.get<std::string>(), false);
  return a < b;
}

Json to_integer(const Json& value, const Json& otherwise) {
  if (value.is_number_float()) return int64_t(value.get<double>());
  if (const auto whole = python_integer(value)) return *whole;
  if (!value.is_string()) return otherwise;
  const std::string text = python_strip(value.get<std::string>());
  int64_t out = 0;
  const char *begin = text.data() + text.starts_with('+'), *end = text.data() + text.size();
  if (const auto r = std::from_chars(begin, end, out); r.ec == std::errc() && r.ptr == end) return out;
  double real = 0;
  if (const auto r = std::from_chars(begin, end, real); r.ec == std::errc() && r.ptr == end && std::isfinite(real))
    return int64_t(real);
  return otherwise;
}

Json to_real(const Json& value, const Json& otherwise) {
  if (value.is_number() || value.is_boolean()) return number_of(value, "");
  if (!value.is_string()) return otherwise;
  const std::string text = python_strip(value.get<std::string>());
  double out = 0;
  const char *begin = text.data() + text.starts_with('+'), *end = text.data() + text.size();
  const auto r = std::from_chars(begin, end, out);
  return r.ec == std::errc() && r.ptr == end && begin < end ? Json(out) : otherwise;
}

Json mapped(const Json& value, const Given& g) {
  Json out = Json::array();
  const Json* attribute = g.find(99, "attribute");
  for (const Json& one : items_of_value(value, *g.place)) {
    if (attribute) {
      const TemplateValue got = item_of(one, *attribute);
      const Json* other = g.find(99, "default");
      check(got.defined || other, "eval", *g.place, ": a document has no field ", python_repr(*attribute),
            ", which a template reads");
      out.push_back(got.defined ? got.json : *other);
    } else {
      Given rest{{g.values.begin() + int64_t(!g.values.empty()), g.values.end()}, g.names, g.place};
      out.push_back(apply_filter(g.text(0, "", ""), one, rest));
    }
  }
  return out;
}

// select, reject, selectattr and rejectattr
Json chosen(const std::string& name, const Json& value, const Given& g) {
  const bool of_attribute = name.ends_with("attr"), wanted = name.starts_with("select");
  const size_t test_at = of_attribute;
  Json out = Json::array();
  for (const Json& one : items_of_value(value, *g.place)) {
    const TemplateValue seen = of_attribute ? item_of(one, g.text(0, "", "")) : TemplateValue{one};
    bool holds = seen.defined && python_truth(seen.json);
    if (g.values.size() > test_at) {
      Given rest{{g.values.begin() + int64_t(test_at) + 1, g.values.end()}, {}, g.place};
      holds = apply_test(g.text(test_at, "", ""), seen, rest);
    }
    if (holds == wanted) out.push_back(one);
  }
  return out;
}

Json sorted(const Json& value, const Given& g) {
  std::vector<Json> items = items_of_value(value, *g.place);
  const Json* attribute = g.find(2, "attribute");
  const auto key = [&](const Json& one) { return attribute ? item_of(one, *attribute).json : one; };
  std::stable_sort(items.begin(), items.end(), [&](const Json& a, const Json& b) { return less(key(a), key(b)); });
  const Json* reverse = g.find(0, "reverse");
  if (reverse && python_truth(*reverse)) {
    std::stable_sort(items.begin(), items.end(), [&](const Json& a, const Json& b) { return less(key(b), key(a)); });
  }
  return items;
}

// What a replacement of re.sub() stands for: \\1, \\g<1> and \\n of a match.
std::string replacement_of(const std::string& how, const std::string& text, const std::vector<Pattern::Span>& groups,
                           const std::string& place) {
  std::string out;
  for (size_t at = 0; at < how.size(); ++at) {
    if (how[at] != '\\' || at + 1 == how.size()) {
      out += how[at];
      continue;
    }
    const char c = how[++at];
    std::string number;
    if (c == 'g' && at + 1 < how.size() && how[at + 1] == '<') {
      const size_t end = how.find('>', at);
      check(end != std::string::npos, "eval", place, ": a template's replacement '", how, "' has \\g< without >");
      number = how.substr(at + 2, end - at - 2);
      at = end;
    } else if (std::isdigit(uint8_t(c))) {
      number = std::string(1, c);
      if (at + 1 < how.size() && std::isdigit(uint8_t(how[at + 1]))) number += how[++at];
    } else {
      out += c == 'n' ? "\n" : c == 't' ? "\t" : c == '\\' ? "\\" : std::string("\\") + c;
      continue;
    }
    check(is_digits(number) && std::stoul(number) < groups.size(), "eval", place, ": a template's replacement '", how,
          "' names group '", number, "', which the pattern has not");
    const Pattern::Span& span = groups[std::stoul(number)];
    if (span.begin != std::string::npos) out += text.substr(span.begin, span.end - span.begin);
  }
  return out;
}

// re.sub()
Json regex_replaced(const Json& value, const Given& g) {
  const std::string text = python_text(value), how = g.text(1, "repl", "");
  const Pattern pattern = Pattern::python(g.text(0, "pattern", ""), *g.place);
  const auto replacement = [&](const std::vector<Pattern::Span>& groups) {
    return replacement_of(how, text, groups, *g.place);
  };
  return replaced(pattern, text, replacement, g.integer(2, "count", 0));
}

const std::map<std::string, std::function<Json(const Json&, const Given&)>>& filters() {
  using V = const Json&;
  using G = const Given&;
  const auto of_text = [](const char* method) {
    return [method](V v, G g) -> Json { return text_methods().at(method)(python_text(v), g); };
  };
  const auto extreme = [](bool most) {
    return [most](V v, G g) -> Json {
      const std::vector<Json> all = items_of_value(v, *g.place);
      check(!all.empty(), "eval", *g.place, ": a template takes the largest or smallest of nothing");
      return most ? *std::max_element(all.begin(), all.end(), less) : *std::min_element(all.begin(), all.end(), less);
    };
  };
  const auto length = [](V v, G g) -> Json { return int64_t(items_of_value(v, *g.place).size()); };
  const auto one_of = [](bool first) {
    return [first](V v, G g) -> Json {
      const std::vector<Json> all = items_of_value(v, *g.place);
      check(!all.empty(), "eval", *g.place, ": a template takes an item of nothing");
      return first ? all.front() : all.back();
    };
  };
  const auto choose = [](const char* name) { return [name](V v, G g) -> Json { return chosen(name, v, g); }; };
  static const std::map<std::string, std::function<Json(V, G)>> all{
      {"trim", of_text("strip")},
      {"lower", of_text("lower")},
      {"upper", of_text("upper")},
      {"capitalize", of_text("capitalize")},
      {"title", of_text("title")},
      {"replace", of_text("replace")},
      {"regex_replace", regex_replaced},  // the harness's own
      {"string", [](V v, G) -> Json { return python_text(v); }},
      {"safe", [](V v, G) -> Json { return v; }},
      {"length", length},
      {"count", length},
      {"first", one_of(true)},
      {"last", one_of(false)},
      {"max", extreme(true)},
      {"min", extreme(false)},
      {"list", [](V v, G g) -> Json { return items_of_value(v, *g.place); }},
      {"join",
       [](V v, G g) -> Json {
         const Json* attribute = g.find(1, "attribute");
         return joined(attribute ? mapped(v, {{}, {{"attribute", *attribute}}, g.place}) : v, g.text(0, "d", ""),
                       *g.place);
       }},
      {"map", mapped},
      {"select", choose("select")},
      {"reject", choose("reject")},
      {"selectattr", choose("selectattr")},
      {"rejectattr", choose("rejectattr")},
      {"sort", sorted},
      {"reverse",
       [](V v, G g) -> Json {
         std::vector<Json> all = items_of_value(v, *g.place);
         std::reverse(all.begin(), all.end());
         return v.is_string() ? Json(joined(all, "", *g.place)) : Json(all);
       }},
      {"unique",
       [](V v, G g) -> Json {
         std::vector<Json> out;
         for (const Json& one : items_of_value(v, *g.place))
           if (std::none_of(out.begin(), out.end(), [&](V o) { return !less(o, one) && !less(one, o); }))
             out.push_back(one);
         return out;
       }},
      {"sum",
       [](V v, G g) -> Json {
         double real = 0;
         int64_t whole = 0;
         bool exact = true;
         for (const Json& one : items_of_value(v, *g.place)) {
           real += number_of(one, *g.place);
           exact = exact && python_integer(one);
           whole += python_integer(one).value_or(0);
         }
         return exact ? Json(whole) : Json(real);
       }},
      {"abs",
       [](V v, G g) -> Json {
         if (const auto whole = python_integer(v)) return std::abs(*whole);
         return std::abs(number_of(v, *g.place));
       }},
      {"int", [](V v, G g) -> Json { return to_integer(v, g.integer(0, "default", 0)); }},
      {"float", [](V v, G g) -> Json { return to_real(v, g.find(0, "default") ? *g.find(0, "default") : Json(0.0)); }},
      {"round",
       [](V v, G g) -> Json {
         const double power = std::pow(10.0, double(g.integer(0, "precision", 0)));
         return std::nearbyint(number_of(v, *g.place) * power) / power;
       }},
      {"items", [](V v, G g) -> Json { return map_method(v.is_object() ? v : Json::object(), "items", g); }},
      {"dictsort",
       [](V v, G g) -> Json {
         std::vector<Json> all = map_method(v, "items", g);
         std::stable_sort(all.begin(), all.end(), [](V a, V b) { return less(a[0], b[0]); });
         return all;
       }},
      {"wordcount", [](V v, G g) -> Json { return int64_t(split_text(python_text(v), nullptr, -1, *g.place).size()); }},
      {"default",
       [](V v, G) -> Json { return v; }},  // of a value that is there; the rendering knows those that are not
      {"d", [](V v, G) -> Json { return v; }},
  };
  return all;
}

const std::map<std::string, std::function<bool(const TemplateValue&, const Given&)>>& tests() {
  using V = const TemplateValue&;
  using G = const Given&;
  const auto of = [](bool (*holds)(const Json&)) { return [holds](V v, G) { return v.defined && holds(v.json); }; };
  const auto same = [](V v, G g) { return v.defined && g.find(0, "") && python_equal(v.json, *g.find(0, "")); };
  const auto rest = [](V v, G g) {
    const int64_t by = g.integer(0, "", 2);
    return v.defined && by && python_integer(v.json) ? *python_integer(v.json) % by : -1;
  };
  static const std::map<std::string, std::function<bool(V, G)>> all{
      {"defined", [](V v, G) { return v.defined; }},
      {"undefined", [](V v, G) { return !v.defined; }},
      {"none", of([](const Json& j) { return j.is_null(); })},
      {"string", of([](const Json& j) { return j.is_string(); })},
      {"number", of([](const Json& j) { return j.is_number() || j.is_boolean(); })},
      {"integer", of([](const Json& j) { return j.is_number_integer(); })},
      {"float", of([](const Json& j) { return j.is_number_float(); })},
      {"boolean", of([](const Json& j) { return j.is_boolean(); })},
      {"true", of([](const Json& j) { return j.is_boolean() && j.get<bool>(); })},
      {"false", of([](const Json& j) { return j.is_boolean() && !j.get<bool>(); })},
      {"mapping", of([](const Json& j) { return j.is_object(); })},
      {"iterable", of([](const Json& j) { return j.is_structured() || j.is_string(); })},
      {"sequence", of([](const Json& j) { return j.is_structured() || j.is_string(); })},
      {"even",
       [rest](V v, G) {
         return rest(v, {{}, {}, nullptr}) == 0;
       }},
      {"odd",
       [rest](V v, G) {
         return std::abs(rest(v, {{}, {}, nullptr})) == 1 && v.defined && python_integer(v.json);
       }},
      {"divisibleby", [rest](V v, G g) { return rest(v, g) == 0; }},
      {"equalto", same},
      {"eq", same},
      {"in",
       [](V v, G g) {
         const Json* all = g.find(0, "");
         return v.defined && all &&
                std::any_of(all->begin(), all->end(), [&](const Json& o) { return python_equal(o, v.json); });
       }},
  };
  return all;
}

}  // namespace

const Json* TemplateArguments::find(size_t index, const std::string& name) const {
  for (const auto& [key, value] : names)
    if (!name.empty() && key == name) return &value;
  return index < values.size() ? &values[index] : nullptr;
}

int64_t TemplateArguments::integer(size_t index, const std::string& name, int64_t otherwise) const {
  const Json* found = find(index, name);
  if (!found) return otherwise;
  const std::optional<int64_t> out = python_integer(*found);
  check(out.has_value(), "eval", *place, ": a template gives ", python_repr(*found),
        " where a whole number must stand");
  return *out;
}

std::string TemplateArguments::text(size_t index, const std::string& name, const std::string& otherwise) const {
  const Json* found = find(index, name);
  if (!found) return otherwise;
  check(found->is_string(), "eval", *place, ": a template gives ", python_repr(*found), " where a text must stand");
  return found->get<std::string>();
}

Json call_method(const Json& of, const std::string& name, const TemplateArguments& arguments) {
  if (of.is_array()) return list_method(of, name, arguments);
  if (of.is_object()) return map_method(of, name, arguments);
  check(of.is_string(), "eval", *arguments.place, ": a template calls ", name, " of ", python_repr(of),
        ", which has no methods");
  const auto found = text_methods().find(name);
  check_usage(found != text_methods().end() && name != "trim", "eval", *arguments.place, ": the method '", name,
              "' of a text is not supported in templates");
  return found->second(of.get<std::string>(), arguments);
}

Json apply_filter(const std::string& name, const Json& value, const TemplateArguments& arguments) {
  const auto found = filters().find(name);
  check_usage(found != filters().end(), "eval", *arguments.place, ": the filter '", name,
              "' of a template is not supported");
  return found->second(value, arguments);
}

bool apply_test(const std::string& name, const TemplateValue& value, const TemplateArguments& arguments) {
  const auto found = tests().find(name);
  check_usage(found != tests().end(), "eval", *arguments.place, ": the test '", name,
              "' of a template is not supported");
  return found->second(value, arguments);
}

bool is_template_filter(const std::string& name) { return filters().count(name) > 0; }
bool is_template_test(const std::string& name) { return tests().count(name) > 0; }

TemplateValue item_of(const Json& of, const Json& key) {
  if (of.is_object()) {
    const std::string name = python_text(key);
    return of.contains(name) ? TemplateValue{of[name]} : TemplateValue{{}, false, name};
  }
  const std::optional<int64_t> index = python_integer(key);
  if (!index || !(of.is_array() || of.is_string())) return {{}, false, python_text(key)};
  const std::vector<std::string> letters =
      of.is_string() ? characters_of(of.get<std::string>()) : std::vector<std::string>();
  const auto size = int64_t(of.is_string() ? letters.size() : of.size());
  const int64_t at = *index < 0 ? *index + size : *index;
  if (at < 0 || at >= size) return {{}, false, python_text(key)};
  return {of.is_string() ? Json(letters[size_t(at)]) : of[size_t(at)]};
}

std::vector<Json> items_of_value(const Json& value, const std::string& place) {
  std::vector<Json> out;
  if (value.is_string()) {
    for (std::string& c : characters_of(value.get<std::string>())) out.push_back(std::move(c));
    return out;
  }
  check(value.is_structured(), "eval", place, ": a template goes through ", python_repr(value), ", which has no items");
  if (value.is_object())
    for (const auto& [key, one] : value.items()) out.push_back(key);
  else
    out.assign(value.begin(), value.end());
  return out;
}

}  // namespace lithe
