#include "lithe/eval/template.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

#include "lithe/base/error.h"
#include "lithe/eval/python_value.h"
#include "lithe/eval/template_nodes.h"

namespace lithe {
namespace {

using E = TemplateExpression;
using N = TemplateNode;

class Rendering {
 public:
  Rendering(const Json& fields, const std::string& place, TemplateDialect dialect)
      : fields_(fields), place_(place), chat_(dialect == TemplateDialect::chat) {}

  void run(const N& node, std::string& out) {
    switch (node.kind) {
      case N::Kind::text: out += node.text; break;
      case N::Kind::output: {
        const TemplateValue v = evaluate(*node.expressions[0]);
        if (v.defined || !chat_) out += python_text(defined(v));
        break;
      }
      case N::Kind::block:
        for (const Statement& one : node.bodies) run(*one, out);
        break;
      case N::Kind::branch: branch(node, out); break;
      case N::Kind::loop: loop(node, out); break;
      case N::Kind::set: assign(node); break;
    }
    check_usage(out.size() <= kMost, "eval", place_, ": a template makes more than ", kMost, " bytes of one document");
  }

 private:
  static constexpr size_t kMost = size_t(1) << 26;
  using Scope = std::map<std::string, Json>;
  const Json& fields_;
  const std::string& place_;
  bool chat_;
  std::vector<Scope> scopes_ = {{}};

  void branch(const N& node, std::string& out) {
    size_t i = 0;
    while (i < node.expressions.size() && !python_truth(value(*node.expressions[i]))) ++i;
    if (node.bodies[i]) run(*node.bodies[i], out);
  }

  static void bind(const std::vector<std::string>& names, const Json& value, Scope& to, const std::string& place) {
    if (names.size() == 1) {
      to[names[0]] = value;
      return;
    }
    check(value.is_array() && value.size() == names.size(), "eval", place, ": a template takes ", names.size(),
          " values of ", python_repr(value));
    for (size_t i = 0; i < names.size(); ++i) to[names[i]] = value[i];
  }

  void loop(const N& node, std::string& out) {
    std::vector<Json> items;
    const TemplateValue all = evaluate(*node.expressions[0]);
    const bool nothing = !all.defined && chat_;
    for (Json& item : nothing ? std::vector<Json>() : items_of_value(defined(all), place_)) {
      scopes_.emplace_back();
      bind(node.names, item, scopes_.back(), place_);
      const bool goes = !node.expressions[1] || python_truth(value(*node.expressions[1]));
      scopes_.pop_back();
      if (goes) items.push_back(std::move(item));
    }
    for (size_t i = 0; i < items.size(); ++i) {
      scopes_.emplace_back();
      bind(node.names, items[i], scopes_.back(), place_);
      Json& state = scopes_.back()["loop"];
      state = {{"index", i + 1},
               {"index0", i},
               {"first", i == 0},
               {"last", i + 1 == items.size()},
               {"length", items.size()},
               {"revindex", items.size() - i},
               {"revindex0", items.size() - i - 1}};
      if (i) state["previtem"] = items[i - 1];
      if (i + 1 < items.size()) state["nextitem"] = items[i + 1];
      run(*node.bodies[0], out);
      scopes_.pop_back();
    }
    if (items.empty() && node.bodies[1]) run(*node.bodies[1], out);
  }

  void assign(const N& node) {
    Json given;
    if (node.expressions.empty()) {
      std::string text;
      run(*node.bodies[0], text);
      given = text;
    } else {
      given = value(*node.expressions[0]);
    }
    if (node.text.empty()) return bind(node.names, given, scopes_.back(), place_);
    Json* space = variable(node.names[0]);
    check_usage(space && space->is_object(), "eval", place_, ": {% set ", node.names[0], ".", node.text,
                " = ... %} of a template needs a namespace of that name");
    (*space)[node.text] = given;
  }

  Json* variable(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return &found->second;
    return nullptr;
  }

  // ---- expressions

  Json defined(const TemplateValue& v) const {
    check(v.defined || v.name.empty(), "eval", place_, ": a document has no field '", v.name,
          "', which a template reads");
    return v.json;
  }
  Json value(const E& e) {
    TemplateValue v = evaluate(e);
    return v.defined || chat_ ? std::move(v.json) : defined(v);
  }

  TemplateValue evaluate(const E& e) {
    switch (e.kind) {
      case E::Kind::constant: return {e.value};
      case E::Kind::name:
        if (const Json* found = variable(e.text)) return {*found};
        if (fields_.contains(e.text)) return {fields_[e.text]};
        return {{}, false, e.text};
      case E::Kind::list: {
        Json out = Json::array();
        for (const Expression& one : e.items) out.push_back(value(*one));
        return {std::move(out)};
      }
      case E::Kind::dictionary: {
        Json out = Json::object();
        for (size_t i = 0; i < e.items.size(); i += 2) out[python_text(value(*e.items[i]))] = value(*e.items[i + 1]);
        return {std::move(out)};
      }
      case E::Kind::attribute: return named(item_of(value(*e.items[0]), e.text), *e.items[0], e.text);
      case E::Kind::item: {
        const Json key = value(*e.items[1]);
        return named(item_of(value(*e.items[0]), key), *e.items[0], python_text(key));
      }
      case E::Kind::slice: return {slice(e)};
      case E::Kind::call: return {call(e)};
      case E::Kind::filter: return {filter(e)};
      case E::Kind::test: return {apply_test(e.text, evaluate(*e.items[0]), arguments(e))};
      case E::Kind::unary: return {unary(e.text, value(*e.items[0]))};
      case E::Kind::binary: return {binary(e)};
      case E::Kind::conditional:
        if (python_truth(value(*e.items[0]))) return evaluate(*e.items[1]);
        return e.items[2] ? evaluate(*e.items[2]) : TemplateValue{"", false};  // which is empty
    }
    return {};
  }

  static TemplateValue named(TemplateValue v, const E& of, const std::string& key) {
    if (!v.defined) v.name = of.text.empty() ? key : cat(of.text, ".", key);
    return v;
  }

  TemplateArguments arguments(const E& e) {
    TemplateArguments out{{}, {}, &place_};
    for (size_t i = 1; i < e.items.size(); ++i) out.values.push_back(value(*e.items[i]));
    for (const auto& [name, one] : e.names) out.names.push_back({name, value(*one)});
    return out;
  }

  Json filter(const E& e) {
    const TemplateArguments given = arguments(e);
    const TemplateValue of = evaluate(*e.items[0]);
    if (e.text == "default" || e.text == "d") {
      const Json* whole = given.find(1, "boolean");
      if (of.defined && !(whole && python_truth(*whole) && !python_truth(of.json))) return of.json;
      const Json* other = given.find(0, "default_value");
      return other ? *other : Json("");
    }
    return apply_filter(e.text, value(*e.items[0]), given);
  }

  Json call(const E& e) {
    const E& what = *e.items[0];
    const TemplateArguments given = arguments(e);
    if (what.kind == E::Kind::attribute) return call_method(value(*what.items[0]), what.text, given);
    if (what.kind == E::Kind::name && what.text == "range") {
      const int64_t first = given.values.size() > 1 ? given.integer(0, "start", 0) : 0,
                    last = given.integer(given.values.size() > 1, "stop", 0), step = given.integer(2, "step", 1);
      constexpr int64_t kLongest = 100000;
      check_usage(step != 0 && (last - first) / step <= kLongest, "eval", place_, ": a template's range is too long");
      Json out = Json::array();
      for (int64_t i = first; step > 0 ? i < last : i > last; i += step) out.push_back(i);
      return out;
    }
    if (what.kind == E::Kind::name && (what.text == "dict" || what.text == "namespace")) {
      Json out = given.values.empty() ? Json::object() : given.values[0];
      for (const auto& [name, one] : given.names) out[name] = one;
      return out;
    }
    if (chat_ && what.kind == E::Kind::name && what.text == "raise_exception")
      fail_usage("chat template", given.text(0, "message", "refused"));
    if (chat_ && what.kind == E::Kind::name && what.text == "strftime_now")
      return now(given.text(0, "format", "%Y-%m-%d"));
    fail_usage("eval", place_, ": a template calls ", what.text.empty() ? "a value" : what.text,
               ", which is not supported; methods, range, dict and namespace are");
  }

  static std::string now(const std::string& format) {
    const std::time_t seconds = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&seconds, &local);
    char text[256];
    return std::string(text, std::strftime(text, sizeof text, format.c_str(), &local));
  }

  Json slice(const E& e) {
    const Json of = value(*e.items[0]);
    const bool text = of.is_string();
    check(text || of.is_array(), "eval", place_, ": a template takes a part of ", python_repr(of), ", which has none");
    const std::vector<std::string> letters = text ? characters_of(of.get<std::string>()) : std::vector<std::string>();
    const auto size = int64_t(text ? letters.size() : of.size());
    const auto bound = [&](size_t i, int64_t usual, int64_t least, int64_t most) {
      if (!e.items[i]) return usual;
      const Json given = value(*e.items[i]);
      if (given.is_null()) return usual;
      const std::optional<int64_t> at = python_integer(given);
      check(at.has_value(), "eval", place_, ": a template cuts at ", python_repr(given), ", which is no whole number");
      return std::clamp(*at < 0 ? *at + size : *at, least, most);
    };
    const int64_t step = e.items[3] ? python_integer(value(*e.items[3])).value_or(1) : 1;
    check(step != 0, "eval", place_, ": a template cuts by steps of 0");
    const bool up = step > 0;
    const int64_t first = up ? bound(1, 0, 0, size) : bound(1, size - 1, -1, size - 1),
                  last = up ? bound(2, size, 0, size) : bound(2, -1, -1, size - 1);
    Json list = Json::array();
    std::string out;
    for (int64_t i = first; up ? i < last : i > last; i += step) {
      if (text)
        out += letters[size_t(i)];
      else
        list.push_back(of[size_t(i)]);
    }
    return text ? Json(out) : list;
  }

  Json unary(const std::string& sign, const Json& x) {
    if (sign == "not") return !python_truth(x);
    if (const auto whole = python_integer(x)) return sign == "-" ? -*whole : *whole;
    check(x.is_number(), "eval", place_, ": a template has ", sign, python_repr(x), ", which is no number");
    return sign == "-" ? -x.get<double>() : x.get<double>();
  }

  Json binary(const E& e) {
    const std::string& sign = e.text;
    const Json a = value(*e.items[0]);
    if (sign == "and") return python_truth(a) ? value(*e.items[1]) : a;
    if (sign == "or") return python_truth(a) ? a : value(*e.items[1]);
    const Json b = value(*e.items[1]);
    if (sign == "~") return python_text(a) + python_text(b);
    if (sign == "==" || sign == "!=") return python_equal(a, b) == (sign == "==");
    if (sign == "in" || sign == "not in") return contains(b, a) == (sign == "in");
    if (sign == "<" || sign == ">" || sign == "<=" || sign == ">=") return compare(sign, a, b);
    return calculated(sign, a, b);
  }

  bool contains(const Json& all, const Json& one) {
    if (all.is_string() && one.is_string())
      return all.get_ref<const std::string&>().find(one.get_ref<const std::string&>()) != std::string::npos;
    if (all.is_object()) return all.contains(python_text(one));
    check(all.is_array(), "eval", place_, ": a template looks for ", python_repr(one), " in ", python_repr(all));
    return std::any_of(all.begin(), all.end(), [&](const Json& item) { return python_equal(item, one); });
  }

  bool compare(const std::string& sign, const Json& a, const Json& b) {
    const auto number = [](const Json& j) { return j.is_number() || j.is_boolean(); };
    check((number(a) && number(b)) || (a.is_string() && b.is_string()) || (a.is_array() && b.is_array()), "eval",
          place_, ": a template compares ", python_repr(a), " ", sign, " ", python_repr(b), ", which have no order");
    const auto as = [](const Json& j) { return j.is_boolean() ? Json(int64_t(j.get<bool>())) : j; };
    const Json x = as(a), y = as(b);
    return sign == "<" ? x < y : sign == ">" ? y < x : sign == "<=" ? !(y < x) : !(x < y);
  }

  Json calculated(const std::string& sign, const Json& a, const Json& b) {
    if (sign == "+" && a.is_string() && b.is_string()) return a.get<std::string>() + b.get<std::string>();
    if (sign == "+" && a.is_array() && b.is_array()) {
      Json out = a;
      for (const Json& one : b) out.push_back(one);
      return out;
    }
    const auto whole = [](const Json& j) { return python_integer(j); };
    if (sign == "*" && (a.is_string() || b.is_string() || a.is_array()) && (whole(a) || whole(b)))
      return repeated(whole(a) ? b : a, whole(a) ? *whole(a) : *whole(b));
    const auto number = [](const Json& j) { return j.is_number() || j.is_boolean(); };
    check(number(a) && number(b), "eval", place_, ": a template has ", python_repr(a), " ", sign, " ", python_repr(b),
          ", which Python does not calculate");
    const auto real = [](const Json& j) { return j.is_boolean() ? double(j.get<bool>()) : j.get<double>(); };
    check((sign != "/" && sign != "//" && sign != "%") || real(b) != 0, "eval", place_, ": a template divides by 0");
    if (whole(a) && whole(b) && sign != "/" && !(sign == "**" && *whole(b) < 0))
      return of_integers(sign, *whole(a), *whole(b));
    const double x = real(a), y = real(b);
    return sign == "+"    ? x + y
           : sign == "-"  ? x - y
           : sign == "*"  ? x * y
           : sign == "/"  ? x / y
           : sign == "//" ? std::floor(x / y)
           : sign == "%"  ? x - y * std::floor(x / y)
                          : std::pow(x, y);
  }
  static int64_t of_integers(const std::string& sign, int64_t x, int64_t y) {
    if (sign == "+") return x + y;
    if (sign == "-") return x - y;
    if (sign == "*") return x * y;
    if (sign == "**") return std::llround(std::pow(double(x), double(y)));
    const int64_t down = x / y - (x % y != 0 && (x < 0) != (y < 0));
    return sign == "//" ? down : x - y * down;
  }
  Json repeated(const Json& what, int64_t times) {
    const size_t size = what.is_string() ? what.get_ref<const std::string&>().size() : what.size();
    check_usage(times <= 0 || size <= kMost / size_t(times), "eval", place_, ": a template repeats a value too often");
    std::string text;
    Json list = Json::array();
    for (int64_t i = 0; i < times; ++i) {
      if (what.is_string())
        text += what.get_ref<const std::string&>();
      else
        for (const Json& one : what) list.push_back(one);
    }
    return what.is_string() ? Json(text) : list;
  }
};

}  // namespace

// trim_blocks and lstrip_blocks: a line break behind a statement or comment goes, and so does what is blank before one
// at the start of a line; {%+ and +%} keep both.
static std::string trimmed_blocks(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t open = std::min(text.find("{%", at), text.find("{#", at));
    if (open == std::string::npos) return out + text.substr(at);
    std::string before = text.substr(at, open - at);
    const size_t line = before.find_last_of('\n');
    const bool begins = line != std::string::npos || at == 0 || out.empty() || out.back() == '\n';
    const size_t blank = line == std::string::npos ? 0 : line + 1;
    if (begins && text[open + 2] != '+' && before.find_first_not_of(" \t", blank) == std::string::npos)
      before.resize(blank);
    const size_t close = text.find(text[open + 1] == '%' ? "%}" : "#}", open);
    if (close == std::string::npos) return out + before + text.substr(open);
    out += before + text.substr(open, close + 2 - open);
    at = close + 2;
    if (text[close - 1] != '+' && at < text.size() && text[at] == '\n') ++at;
  }
  return out;
}

Template::Template(const std::string& text, std::string place, TemplateDialect dialect)
    : place_(std::move(place)),
      dialect_(dialect),
      body_(read_template(dialect == TemplateDialect::chat ? trimmed_blocks(text) : text, place_)) {}

std::string Template::render(const Json& fields) const {
  std::string out;
  Rendering(fields, place_, dialect_).run(*body_, out);
  return out;
}

}  // namespace lithe
