#include "lithe/infer/json_grammar.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "lithe/base/error.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Sequence = GrammarBuilder::Sequence;
constexpr int64_t kLargest = 9999999999999999;  // 16 digits: less than what a double may round
constexpr int kDeepestSchema = 100, kMostCompared = 10000;

const std::set<std::string>& annotations() {
  static const std::set<std::string> keys{"$schema",     "$id",      "$comment",  "$defs",
                                          "definitions", "title",    "default",   "description",
                                          "examples",    "readOnly", "writeOnly", "deprecated"};
  return keys;
}

// Keywords that say something about one type alone.
const std::map<std::string, std::set<std::string>>& keywords() {
  static const std::map<std::string, std::set<std::string>> keys{
      {"object", {"properties", "required", "additionalProperties"}},
      {"array", {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
      {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
      {"boolean", {}},
      {"null", {}}};
  return keys;
}

// RFC 3339 without leap days and seconds.
const std::map<std::string, std::string>& formats() {
  static const std::string date =
      "\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))";
  static const std::string time = "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
  static const std::string byte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  static const std::map<std::string, std::string> patterns{
      {"date", "^" + date + "$"},
      {"time", "^" + time + "$"},
      {"date-time", "^" + date + "T" + time + "$"},
      {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
      {"ipv4", "^(" + byte + "\\.){3}" + byte + "$"}};
  return patterns;
}

class JsonRules {
 public:
  explicit JsonRules(const Json& schema) : schema_(schema) {}

  Grammar of_schema() {
    const int32_t root = b_.add_rule("root");
    b_.set(root, {b_.call(rule_at("#", schema_))});
    return b_.finish(root);
  }
  Grammar of_object() {
    const int32_t root = b_.add_rule("root");
    b_.set(root, {any("object")});
    return b_.finish(root);
  }

 private:
  const Json& schema_;
  GrammarBuilder b_{"json_schema"};
  std::map<std::string, int32_t> places_, common_;  // rules of schemas by their place; of JSON itself
  int depth_ = 0, compared_ = 0;

  static Sequence join(std::vector<Sequence> parts) { return GrammarBuilder::join(std::move(parts)); }

  // Rules of JSON itself.
  Sequence common(const std::string& name, const std::function<std::vector<Sequence>()>& choices) {
    auto [at, added] = common_.try_emplace(name, 0);
    if (added) {
      const int32_t rule = at->second = b_.add_rule(name);
      b_.within(rule);
      b_.set(rule, choices());
    }
    return b_.call(common_.at(name));
  }
  Sequence space() {
    return common("space", [&] {
      return std::vector<Sequence>{{}, b_.text(" "), join({b_.text("\n"), b_.repeat(b_.text(" "), 0, 40)})};
    });
  }
  Sequence hex() { return b_.one_of({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}); }
  Sequence plain_character() { return b_.one_of(others({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})); }
  Sequence character() {
    return common("character", [&] {
      const Sequence h = hex(), u = b_.text("\\u"), d = b_.one_of({{'D', 'D'}, {'d', 'd'}});
      return std::vector<Sequence>{
          plain_character(),
          join({b_.text("\\"), b_.one_of({{'"', '"'},
                                          {'/', '/'},
                                          {'\\', '\\'},
                                          {'b', 'b'},
                                          {'f', 'f'},
                                          {'n', 'n'},
                                          {'r', 'r'},
                                          {'t', 't'}})}),
          join({u, b_.one_of({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}), h, h, h}),
          join({u, d, b_.one_of({{'0', '7'}}), h, h}),
          join({u, d, b_.one_of({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), h, h, u, d, b_.one_of({{'C', 'F'}, {'c', 'f'}}),
                h, h})};
    });
  }
  Sequence quoted(const Sequence& inner) { return join({b_.text("\""), inner, b_.text("\"")}); }
  Sequence digit() { return b_.one_of({{'0', '9'}}); }
  Sequence fraction() { return join({b_.text("."), b_.repeat(digit(), 1, 16)}); }
  Sequence whole_number() {
    return b_.either({b_.text("0"), join({b_.one_of({{'1', '9'}}), b_.repeat(digit(), 0, 15)})});
  }
  Sequence any(const std::string& type) {
    return common(type, [&]() -> std::vector<Sequence> {
      if (type == "object") {
        const Sequence member = join({any("string"), b_.text(":"), space(), any("value"), space()});
        return {list("{", member, 0, {}, "}")};
      }
      if (type == "array") return {list("[", join({any("value"), space()}), 0, {}, "]")};
      if (type == "string") return {quoted(b_.repeat(character(), 0, {}))};
      if (type == "boolean") return {b_.text("true"), b_.text("false")};
      if (type == "null") return {b_.text("null")};
      if (type == "integer") return {join({b_.optional(b_.text("-")), whole_number()})};
      if (type == "number")
        return {
            join({b_.optional(b_.text("-")), whole_number(), b_.optional(fraction()),
                  b_.optional(join({b_.one_of({{'E', 'E'}, {'e', 'e'}}),
                                    b_.optional(b_.one_of({{'+', '+'}, {'-', '-'}})), b_.repeat(digit(), 1, 2)}))})};
      std::vector<Sequence> all;
      for (const char* one : {"object", "array", "string", "number", "boolean", "null"}) all.push_back(any(one));
      return all;
    });
  }
  // Items behind each other with commas; each ends in white space.
  Sequence list(const char* begin, const Sequence& item, int64_t least, std::optional<int64_t> most, const char* end) {
    if (most == 0) return join({b_.text(begin), space(), b_.text(end)});
    const Sequence more = join({b_.text(","), space(), item});
    if (most) --*most;
    Sequence items = join({item, b_.repeat(more, std::max<int64_t>(0, least - 1), most)});
    if (least == 0) items = b_.optional(items);
    return join({b_.text(begin), space(), items, b_.text(end)});
  }

  template <class... What>
  static void expect(bool good, const std::string& at, const What&... what) {
    check_usage(good, "json_schema", at, " ", what...);
  }

  // Schemas.
  int32_t rule_at(const std::string& at, const Json& schema) {
    if (const auto known = places_.find(at); known != places_.end()) return known->second;
    const int32_t rule = places_[at] = b_.add_rule(at);
    b_.within(rule);
    expect(++depth_ <= kDeepestSchema, at, "stands deeper than ", kDeepestSchema, " schemas within each other");
    std::vector<Sequence> choices{value(at, schema)};
    --depth_;
    b_.set(rule, std::move(choices));
    return rule;
  }
  Sequence sub(const std::string& at, const Json& schema) {
    const int32_t rule = rule_at(at, schema);
    return b_.call(rule);
  }
  const Json& resolved(const std::string& at, const std::string& ref) const {
    expect(ref == "#" || ref.starts_with("#/"), at, "refers to '", ref,
           "'; only places in the same schema are read (#/...)");
    try {
      return schema_.at(Json::json_pointer(ref.substr(1)));
    } catch (const std::exception&) {
      expect(false, at, "refers to '", ref, "', which is not there");
    }
    return schema_;
  }
  static bool only(const Json& schema, const std::set<std::string>& keys, std::string& other) {
    for (const auto& [key, inner] : schema.items())
      if (!annotations().contains(key) && !keys.contains(key)) {
        other = key;
        return false;
      }
    return true;
  }
  static void allow(const std::string& at, const Json& schema, const std::set<std::string>& keys,
                    const std::string& beside) {
    std::string other;
    expect(only(schema, keys, other), at, "has '", other, "', which cannot be compiled", beside, "; leave it out");
  }

  Sequence value(const std::string& at, const Json& schema) {
    if (schema.is_boolean()) {
      expect(schema.get<bool>(), at, "is false, which no value satisfies");
      return any("value");
    }
    expect(schema.is_object(), at, "must be a schema: an object, true or false");
    if (const auto ref = schema.find("$ref"); ref != schema.end()) {
      allow(at, schema, {"$ref"}, " beside '$ref'");
      expect(ref->is_string(), at, "has a '$ref' that is no text");
      const std::string to = ref->get<std::string>();
      return sub(to, resolved(at, to));
    }
    for (const char* key : {"anyOf", "oneOf", "allOf"})
      if (schema.contains(key)) return combined(at, schema, key);
    const std::vector<std::string> types = types_of(at, schema);
    if (schema.contains("enum") || schema.contains("const")) return listed(at, schema, types);
    if (types.empty()) return allow(at, schema, {}, ""), any("value");
    std::set<std::string> keys{"type"};
    for (const std::string& type : types) {
      const auto& own = keywords().at(type);
      keys.insert(own.begin(), own.end());
    }
    allow(at, schema, keys, "");
    std::vector<Sequence> choices;
    for (const std::string& type : types)
      if (type == "object")
        choices.push_back(object(at, schema));
      else if (type == "array")
        choices.push_back(array(at, schema));
      else if (type == "string")
        choices.push_back(string(at, schema));
      else if (type == "number" || type == "integer")
        choices.push_back(number(at, schema, type == "integer"));
      else
        choices.push_back(any(type));
    return b_.either(std::move(choices));
  }

  // Those that are named, or the one that the keywords are of. None: any.
  static std::vector<std::string> types_of(const std::string& at, const Json& schema) {
    std::vector<std::string> out;
    const auto type = schema.find("type");
    if (type != schema.end()) {
      const Json list = type->is_array() ? *type : Json::array({*type});
      expect(!list.empty(), at, "has an empty list as its 'type'");
      for (const Json& one : list) {
        expect(one.is_string() && keywords().contains(one.get<std::string>()), at, "has the type ",
               dump(one, -1, Invalid::replaced), "; known are object, array, string, number, integer, boolean, null");
        const std::string name = one.get<std::string>();
        if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
      }
      return out;
    }
    for (const auto& [name, keys] : keywords())
      if (name != "integer" && std::any_of(keys.begin(), keys.end(), [&](const auto& k) { return schema.contains(k); }))
        out.push_back(name);
    expect(out.size() <= 1, at, "has keywords of several types; give it a 'type'");
    return out;
  }

  static bool is_of(const Json& value, const std::string& type) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    return type == "object" ? value.is_object() : value.is_array();
  }
  static std::vector<Json> values_of(const std::string& at, const Json& schema) {
    const auto list = schema.find("enum");
    if (list == schema.end()) return std::vector<Json>(1, schema["const"]);
    expect(list->is_array() && !list->empty(), at, "must have a list of values as its 'enum'");
    return std::vector<Json>(list->begin(), list->end());
  }
  Sequence listed(const std::string& at, const Json& schema, const std::vector<std::string>& types) {
    allow(at, schema,
          schema.contains("enum") ? std::set<std::string>{"type", "enum"} : std::set<std::string>{"type", "const"},
          " beside values that are listed");
    std::vector<Sequence> choices;
    for (const Json& one : values_of(at, schema))
      if (types.empty() || std::any_of(types.begin(), types.end(), [&](const auto& type) { return is_of(one, type); }))
        choices.push_back(b_.text(dump(one)));
    expect(!choices.empty(), at, "lists no value of its type");
    return b_.either(std::move(choices));
  }

  Sequence combined(const std::string& at, const Json& schema, const std::string& key) {
    allow(at, schema, {key}, cat(" beside '", key, "'"));
    const Json& list = schema[key];
    expect(list.is_array() && !list.empty(), at, "must have a list of schemas as its '", key, "'");
    expect(key != "allOf" || list.size() == 1, at,
           "has 'allOf' of several schemas, which cannot be compiled; write them as one");
    if (key == "oneOf")
      for (size_t i = 0; i < list.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          expect(exclude(list[i], list[j]), at, "has 'oneOf' whose alternatives ", j, " and ", i,
                 " may both be valid, which cannot be compiled; write anyOf, or give each another 'type', or a member "
                 "with another 'const'");
    std::vector<Sequence> choices;
    for (size_t i = 0; i < list.size(); ++i) choices.push_back(sub(cat(at, "/", key, "/", i), list[i]));
    return b_.either(std::move(choices));
  }
  // No value is valid under both, as far as types, listed values and required members with such tell.
  bool exclude(const Json& given_a, const Json& given_b) {
    if (++compared_ > kMostCompared) return false;
    const Json &a = followed(given_a), &b = followed(given_b);
    if (!a.is_object() || !b.is_object()) return false;
    if ((a.contains("enum") || a.contains("const")) && (b.contains("enum") || b.contains("const"))) {
      const std::vector<Json> ours = values_of("", a), theirs = values_of("", b);
      return std::none_of(ours.begin(), ours.end(), [&](const Json& one) {
        return std::find(theirs.begin(), theirs.end(), one) != theirs.end();
      });
    }
    const std::vector<std::string> x = kinds_of(a), y = kinds_of(b);
    if (x.empty() || y.empty()) return false;
    bool apart = true;
    for (const std::string& one : x)
      apart = apart && std::find(y.begin(), y.end(), one) == y.end() &&
              !(one == "integer" && std::find(y.begin(), y.end(), "number") != y.end()) &&
              !(one == "number" && std::find(y.begin(), y.end(), "integer") != y.end());
    if (apart) return true;
    if (x != std::vector<std::string>{"object"} || y != x || !a.contains("properties") || !b.contains("properties"))
      return false;
    for (const auto& [name, inner] : a["properties"].items())
      if (b["properties"].contains(name) && needs(a, name) && needs(b, name) && exclude(inner, b["properties"][name]))
        return true;
    return false;
  }
  const Json& followed(const Json& schema) const {
    const Json* at = &schema;
    for (int i = 0; i < kDeepestSchema && at->is_object() && at->contains("$ref") && (*at)["$ref"].is_string(); ++i)
      at = &resolved("$ref", (*at)["$ref"].get<std::string>());
    return *at;
  }
  static std::vector<std::string> kinds_of(const Json& schema) {
    if (!schema.contains("enum") && !schema.contains("const")) return types_of("", schema);
    std::vector<std::string> out;
    for (const Json& one : values_of("", schema))
      for (const auto& [name, keys] : keywords())
        if (is_of(one, name)) out.push_back(name);
    return out;
  }
  static bool needs(const Json& schema, const std::string& name) {
    const auto list = schema.find("required");
    return list != schema.end() && list->is_array() && std::find(list->begin(), list->end(), Json(name)) != list->end();
  }

  int64_t count(const std::string& at, const Json& schema, const char* key, int64_t usual) {
    const auto found = schema.find(key);
    if (found == schema.end()) return usual;
    expect(found->is_number_integer() && found->get<int64_t>() >= 0, at, "must have a whole number as its '", key, "'");
    return found->get<int64_t>();
  }

  Sequence object(const std::string& at, const Json& schema) {
    const Json none = Json::object();
    const auto given = schema.find("properties");
    const Json& properties = given == schema.end() ? none : *given;
    expect(properties.is_object(), at, "must have an object as its 'properties'");
    const auto required = schema.find("required");
    const auto extra = schema.find("additionalProperties");
    const bool says = extra != schema.end(), more = says ? *extra != Json(false) : given == schema.end();
    if (given == schema.end() && required == schema.end() && (!says || *extra == Json(true))) return any("object");
    struct Member {
      std::string name;
      Sequence both;
      bool needed;
    };
    std::vector<Member> members;
    const auto member_at = [](const std::string& where, const std::string& name) {  // names may have '/' and '~'
      return "#" + (Json::json_pointer(where.substr(1)) / "properties" / name).to_string();
    };
    const auto member = [&](const std::string& name, const Sequence& value) {
      return join({b_.text(dump(Json(name))), b_.text(":"), space(), value, space()});
    };
    for (const auto& [name, inner] : properties.items())
      members.push_back({name, member(name, sub(member_at(at, name), inner)), needs(schema, name)});
    if (required != schema.end()) {
      expect(required->is_array(), at, "must have a list of names as its 'required'");
      for (const Json& name : *required) {
        expect(name.is_string(), at, "must have texts in its 'required'");
        if (std::any_of(members.begin(), members.end(), [&](const Member& m) { return m.name == name; })) continue;
        expect(!says || more, at, "requires '", name.get<std::string>(), "', which it does not allow");
        members.push_back(
            {name.get<std::string>(), member(name.get<std::string>(), value_of_others(at, schema)), true});
      }
    }
    // From the last member on: what may follow, behind a member or behind the bracket.
    Sequence behind, first;
    if (more) {
      std::vector<std::string> names;
      for (const Member& one : members) names.push_back(one.name);
      const Sequence other = join({key_but(names), b_.text(":"), space(), value_of_others(at, schema), space()});
      behind = b_.repeat(join({b_.text(","), space(), other}), 0, {});
      first = b_.optional(join({other, behind}));
    }
    for (size_t i = members.size(); i-- > 0;) {
      const Sequence both = b_.shared(members[i].both), goes_on = b_.shared(behind),
                     with = join({b_.text(","), space(), both, goes_on});
      const Sequence begun = join({both, goes_on});
      behind = members[i].needed ? with : b_.either({with, goes_on});
      first = members[i].needed ? begun : b_.either({begun, first});
    }
    return join({b_.text("{"), space(), first, b_.text("}")});
  }
  Sequence value_of_others(const std::string& at, const Json& schema) {
    const auto extra = schema.find("additionalProperties");
    return extra == schema.end() || extra->is_boolean() ? any("value") : sub(at + "/additionalProperties", *extra);
  }
  // A string without escapes that is none of the names.
  Sequence key_but(const std::vector<std::string>& names) {
    struct Node {
      std::map<uint32_t, size_t> next;
      bool ends = false;
    };
    std::vector<Node> tree(1);
    for (const std::string& name : names) {
      size_t at = 0;
      for_each_character(name, [&](uint32_t c) {
        const auto [found, added] = tree[at].next.try_emplace(c, tree.size());
        at = found->second;
        if (added) tree.push_back({});
      });
      tree[at].ends = true;
    }
    const CharRanges special{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    std::vector<Sequence> rest(tree.size());
    const Sequence anything = join({b_.repeat(plain_character(), 0, {}), b_.text("\"")});
    for (size_t at = tree.size(); at-- > 0;) {  // children stand behind their parents
      CharRanges taken = special;
      std::vector<Sequence> choices;
      for (const auto& [c, to] : tree[at].next) {
        taken.push_back({c, c});
        std::string text;
        append_utf8(text, c);
        if (c > 0x1F && c != '"' && c != '\\') choices.push_back(join({b_.text(text), rest[to]}));
      }
      choices.push_back(join({b_.one_of(others(taken)), anything}));
      if (!tree[at].ends) choices.push_back(b_.text("\""));
      rest[at] = b_.either(std::move(choices));
    }
    return join({b_.text("\""), rest[0]});
  }

  Sequence array(const std::string& at, const Json& schema) {
    const int64_t least = count(at, schema, "minItems", 0), most = count(at, schema, "maxItems", -1);
    expect(most < 0 || least <= most, at, "wants ", least, " to ", most, " items");
    expect(schema.value("uniqueItems", Json(false)) == Json(false), at,
           "has 'uniqueItems', which cannot be compiled; leave it out");
    std::vector<Sequence> fixed;
    if (const auto list = schema.find("prefixItems"); list != schema.end()) {
      expect(list->is_array(), at, "must have a list as its 'prefixItems'");
      for (size_t i = 0; i < list->size(); ++i)
        fixed.push_back(join({sub(cat(at, "/prefixItems/", i), (*list)[i]), space()}));
    }
    const auto items = schema.find("items");
    expect(items == schema.end() || !items->is_array(), at, "has a list as its 'items'; name it 'prefixItems'");
    const bool ends = items != schema.end() && *items == Json(false);
    const auto n = int64_t(fixed.size());
    expect(!ends || least <= n, at, "wants ", least, " items and has ", n);
    const Sequence item =
        ends ? Sequence() : join({items == schema.end() ? any("value") : sub(at + "/items", *items), space()});
    if (n == 0) return list("[", item, ends ? 0 : least, ends ? 0 : most < 0 ? std::optional<int64_t>() : most, "]");
    // From the last on: what may follow item i, with its comma.
    Sequence behind;
    if (!ends && (most < 0 || most > n))
      behind = b_.repeat(join({b_.text(","), space(), item}), std::max<int64_t>(0, least - n),
                         most < 0 ? std::optional<int64_t>() : most - n);
    for (int64_t i = n; i-- > 0;) {
      const Sequence comma = i ? join({b_.text(","), space()}) : Sequence();
      const Sequence with = join({comma, fixed[size_t(i)], behind});
      if (most >= 0 && i >= most)
        behind = {};
      else
        behind = i < least ? with : b_.optional(with);
    }
    return join({b_.text("["), space(), behind, b_.text("]")});
  }

  Sequence string(const std::string& at, const Json& schema) {
    const int64_t least = count(at, schema, "minLength", 0), most = count(at, schema, "maxLength", -1);
    const bool lengths = schema.contains("minLength") || schema.contains("maxLength");
    const auto pattern = schema.find("pattern"), format = schema.find("format");
    expect(int(lengths) + int(pattern != schema.end()) + int(format != schema.end()) <= 1, at,
           "has several of lengths, 'pattern' and 'format', which cannot be compiled together; keep one");
    if (pattern != schema.end()) {
      expect(pattern->is_string(), at, "must have a text as its 'pattern'");
      return quoted(json_string_pattern(b_, pattern->get<std::string>(), at));
    }
    if (format != schema.end()) {
      const auto known = formats().find(format->is_string() ? format->get<std::string>() : "");
      expect(known != formats().end(), at, "has the format ", dump(*format, -1, Invalid::replaced),
             ", which cannot be compiled; known are date, time, date-time, uuid, ipv4");
      return quoted(json_string_pattern(b_, known->second, at));
    }
    if (!lengths) return any("string");
    expect(most < 0 || least <= most, at, "wants ", least, " to ", most, " characters");
    return quoted(b_.repeat(character(), least, most < 0 ? std::optional<int64_t>() : most));
  }

  // Numbers of equally many digits between two.
  Sequence digits_between(const std::string& low, const std::string& high) {
    if (low.empty()) return {};
    const auto same = [](char c) { return CharRanges{{uint32_t(c), uint32_t(c)}}; };
    const std::string rest_low = low.substr(1), rest_high = high.substr(1), zeros(rest_low.size(), '0'),
                      nines(rest_low.size(), '9');
    if (low[0] == high[0]) return join({b_.one_of(same(low[0])), digits_between(rest_low, rest_high)});
    if (rest_low == zeros && rest_high == nines)
      return join({b_.one_of({{uint32_t(low[0]), uint32_t(high[0])}}),
                   b_.repeat(digit(), int64_t(zeros.size()), int64_t(zeros.size()))});
    std::vector<Sequence> choices;
    char first = low[0], last = high[0];
    if (rest_low != zeros) choices.push_back(join({b_.one_of(same(first++)), digits_between(rest_low, nines)}));
    if (rest_high != nines) choices.push_back(join({b_.one_of(same(last--)), digits_between(zeros, rest_high)}));
    if (first <= last) choices.push_back(digits_between(first + zeros, last + nines));
    return b_.either(std::move(choices));
  }
  // Whole numbers from low to high, both at least 0.
  std::vector<Sequence> between(int64_t low, int64_t high, const Sequence& before, const Sequence& behind) {
    std::vector<Sequence> out;
    int64_t first = 0;
    for (int64_t last = 9; first <= high && first <= kLargest; first = last + 1, last = 10 * last + 9)
      if (std::max(low, first) <= std::min(high, last))
        out.push_back(join({before, digits_between(cat(std::max(low, first)), cat(std::min(high, last))), behind}));
    return out;
  }
  Sequence number(const std::string& at, const Json& schema, bool whole) {
    const auto step = schema.find("multipleOf");
    expect(step == schema.end() || (whole && *step == Json(1)), at,
           "has 'multipleOf', which cannot be compiled; leave it out");
    int64_t low = -kLargest, high = kLargest;
    bool bounded = false;
    for (const char* key : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
      const auto found = schema.find(key);
      if (found == schema.end()) continue;
      expect(found->is_number() && std::abs(found->get<double>()) < 1e15, at, "must have a number below 1e15 as its '",
             key, "'");
      const double x = found->get<double>();
      const bool open = key[0] == 'e';
      bounded = true;
      if (std::string(key).ends_with("inimum"))
        low = std::max(low, open ? int64_t(std::floor(x)) + 1 : int64_t(std::ceil(x)));
      else
        high = std::min(high, open ? int64_t(std::ceil(x)) - 1 : int64_t(std::floor(x)));
    }
    if (!bounded) return any(whole ? "integer" : "number");
    const auto all = [&](int64_t from, int64_t to, const Sequence& before, const Sequence& behind,
                         std::vector<Sequence>& out) {
      for (Sequence& one : between(std::max<int64_t>(from, 0), to, before, behind)) out.push_back(std::move(one));
    };
    std::vector<Sequence> choices;
    all(low, high, {}, {}, choices);
    all(std::max<int64_t>(1, -high), -low, b_.text("-"), {}, choices);
    if (!whole) {  // between two whole numbers that are both allowed
      all(low, high - 1, {}, fraction(), choices);
      all(std::max<int64_t>(0, -high), -low - 1, b_.text("-"), fraction(), choices);
    }
    expect(!choices.empty(), at, "leaves no whole number within its limits, which cannot be compiled; widen them");
    return b_.either(std::move(choices));
  }
};

}  // namespace

Grammar json_object_grammar() {
  const Json none = Json::object();
  return JsonRules(none).of_object();
}

Grammar json_schema_grammar(const Json& schema) { return JsonRules(schema).of_schema(); }

}  // namespace lithe
