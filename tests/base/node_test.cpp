#include <gtest/gtest.h>

#include "lithe/base/node.h"

#include <chrono>
#include <functional>

#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/base/json.h"
#include "lithe/base/node_path.h"
#include "lithe/base/repeated_keys.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

struct Inner {
  double rate = 0.1;
  void fields(Fields& f) { f("learning_rate", rate, "step size", between(0, 1)); }
};
struct Config {
  int64_t width = 8;
  std::string kind = "a";
  Inner train;
  void fields(Fields& f) {
    f("hidden_size", width, "width", at_least(1));
    f("kind", kind, "which", one_of({"a", "bee"}));
    f.section("train", train, "training");
  }
};

std::string error_of(const std::string& yaml) {
  Config c;
  try {
    read_fields(parse_yaml(yaml, "r.yaml"), "", [&](Fields& f) { c.fields(f); });
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return e.what();
  }
  return "no error";
}

TEST(Fields, ReadsValuesAndKeepsDefaults) {
  Config c;
  read_fields(parse_yaml("hidden_size: 16\ntrain: {learning_rate: 3e-4}", "r.yaml"), "",
              [&](Fields& f) { c.fields(f); });
  EXPECT_EQ(c.width, 16);
  EXPECT_EQ(c.kind, "a");
  EXPECT_DOUBLE_EQ(c.train.rate, 3e-4);
}

TEST(Fields, ErrorsNamePlaceKeyAndRemedy) {
  EXPECT_EQ(error_of("hiden_size: 16"),
            "recipe: r.yaml:1:13: unknown key 'hiden_size' at the top level; did you mean 'hidden_size'?");
  EXPECT_EQ(error_of("train:\n  learning_rat: 1"),
            "recipe: r.yaml:2:17: unknown key 'learning_rat' in section 'train'; did you mean 'learning_rate'?");
  EXPECT_EQ(error_of("hidden_size: 0"), "recipe: r.yaml:1:14: 'hidden_size' must be at least 1, got 0");
  EXPECT_EQ(error_of("hidden_size: 1.5"), "recipe: r.yaml:1:14: 'hidden_size' must be an integer, got '1.5'");
  EXPECT_EQ(error_of("kind: be"), "recipe: r.yaml:1:7: 'kind' must be one of a, bee, got 'be'; did you mean 'bee'?");
  EXPECT_EQ(error_of("train: 3"), "recipe: r.yaml:1:8: 'train' must be a section with keys, got '3'");
  EXPECT_EQ(error_of("kind: a\nkind: a"), "recipe: r.yaml:2:1: 'kind' is given twice; remove one");
}

TEST(Fields, WriteThenReadIsTheSame) {
  Config c;
  c.width = 12;
  c.train.rate = 0.30000000000000004;
  const Node out = write_fields([&](Fields& f) { c.fields(f); });
  Config back;
  read_fields(parse_yaml(to_yaml(out), "x"), "", [&](Fields& f) { back.fields(f); });
  EXPECT_EQ(back.width, 12);
  EXPECT_EQ(back.train.rate, c.train.rate);
  Config json;
  read_fields(parse_json_node(to_json(out), "x"), "", [&](Fields& f) { json.fields(f); });
  EXPECT_EQ(json.train.rate, c.train.rate);
}

TEST(Node, OverridesMakeSectionsAndKeepMarks) {
  Node root = parse_yaml("model: {position: rotary}", "r.yaml");
  apply_override(root, "train.learning_rate=3e-4");
  apply_override(root, "model.position.base=500");
  EXPECT_EQ(root.find("train")->find("learning_rate")->text(), "3e-4");
  EXPECT_EQ(root.find("model")->find("position")->find("type")->text(), "rotary");
  EXPECT_THROW(apply_override(root, "nonsense"), Error);
}

// A Null key's value, anchors, styles: what YAML has and recipes may use.
TEST(Node, ReadsTheYamlThatRecipesUse) {
  const Node root = parse_yaml(
      "a: &x {b: [1, \"2\", '3', ~, null]}\nc: *x\nd: |\n  two\n  lines\ne:\n  - f: 1\n    g: 2\n  - h\n", "r.yaml");
  const Node& list = *root.find("a")->find("b");
  ASSERT_EQ(list.items().size(), 5u);
  EXPECT_EQ(list.items()[0].text(), "1");
  EXPECT_FALSE(list.items()[0].quoted());
  EXPECT_TRUE(list.items()[1].quoted());
  EXPECT_TRUE(list.items()[2].quoted());
  EXPECT_TRUE(list.items()[3].is_null());
  EXPECT_TRUE(list.items()[4].is_null());
  EXPECT_EQ(to_yaml(*root.find("c")), to_yaml(*root.find("a")));
  EXPECT_EQ(root.find("d")->text(), "two\nlines\n");
  EXPECT_EQ(root.find("e")->items()[0].find("g")->text(), "2");
  EXPECT_EQ(to_string(root.find("e")->items()[1].mark()), "r.yaml:9:5");
  EXPECT_TRUE(parse_yaml("", "r.yaml").is_null());
  EXPECT_TRUE(parse_yaml("# nothing\n", "r.yaml").is_null());
  EXPECT_EQ(parse_yaml("plain", "r.yaml").text(), "plain");
}

std::string yaml_error(const std::string& text) {
  try {
    parse_yaml(text, "r.yaml");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return e.what();
  }
  return "none";
}

TEST(Node, EscapesOfSpacesAreUtf8) {
  EXPECT_EQ(parse_yaml("k: \"a\\_b\\Nc\\Ld \u00e9\u0420\u6f22\U0001f999\"", "t").find("k")->text(),
            "a\u00a0b\u0085c\u2028d \u00e9\u0420\u6f22\U0001f999");
}

TEST(Node, TheLastOfRepeatedKeysWinsWhereOthersReadSo) {
  const Node node = parse_repeated_yaml("a: {k: 1, l: 2, k: 3}\na: {m: 1, m: [2]}\n", "t");
  ASSERT_EQ(node.entries().size(), 1u);
  ASSERT_EQ(node.find("a")->entries().size(), 1u);
  EXPECT_EQ(node.find("a")->find("m")->items()[0].text(), "2");
}

TEST(Node, AFunctionsTagIsNoTextThatBeginsSo) {
  const Node node = parse_repeated_yaml("a: !function u.f\nb: '!function u.f'\nc: !function 'u.f'\n", "t");
  for (const char* key : {"a", "b", "c"}) {
    EXPECT_EQ(node.find(key)->text(), "!function u.f") << key;
    EXPECT_EQ(node.find(key)->quoted(), *key == 'b') << key;
  }
}

TEST(Node, RefusesYamlThatGrowsOrNestsWithoutEnd) {
  std::string laughs = "a: &a [1,1,1,1,1,1,1,1,1,1]\n";
  for (char c = 'b'; c <= 'k'; ++c) {
    laughs += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) laughs += std::string("*") + char(c - 1) + ",";
    laughs += "]\n";
  }
  EXPECT_NE(yaml_error(laughs).find("anchors name more than 100000 values"), std::string::npos);
  std::string many = "a: &a [" + std::string(2 * 999, '1') + "]\nb: [";
  for (size_t i = 8; i < 6 + 2 * 999; i += 2) many[i] = ',';
  for (int i = 0; i < 1001; ++i) many += "*a,";
  EXPECT_NE(yaml_error(many + "]").find("more than 1000000 values, aliases counted"), std::string::npos);
  EXPECT_NE(yaml_error("a: &a [*a, *a]\n").find("r.yaml:1:8: an alias stands within what it names"), std::string::npos);
  std::string deep = "a: &a [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n";
  for (char c = 'b'; c <= 'd'; ++c)
    deep += std::string(1, c) + ": &" + c + " [[[[[[[[[[[[[[[[[[[[*" + char(c - 1) + "]]]]]]]]]]]]]]]]]]]]\n";
  EXPECT_NE(yaml_error(deep).find("nested deeper than 64"), std::string::npos);
  EXPECT_NE(yaml_error("a: " + std::string(70, '[') + std::string(70, ']')).find("nested deeper than 64"),
            std::string::npos);
  EXPECT_NE(yaml_error("a: " + std::string(100000, '[')).find("r.yaml:"), std::string::npos);
  EXPECT_NE(yaml_error("a: 1\n---\nb: 2\n").find("more than one document"), std::string::npos);
  EXPECT_NE(yaml_error("[a, b]: 1\n").find("a key must be a plain word"), std::string::npos);
  EXPECT_NE(yaml_error("? \n: 1\n").find("a key must be a plain word"), std::string::npos);
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Anchors within anchors are copied at each level: 0.6 MB took 2.3 GB. 20,000 keys took 20 s.
TEST(Node, HostileTextsAreBoundedInMemoryAndTime) {
  std::string nested;
  for (int i = 0; i < 60; ++i) nested += cat("&a", i, " [");
  nested += std::string(600000, '1');
  for (size_t i = 1; i < 600000; i += 2) nested[nested.size() - 600000 + i] = ',';
  nested += std::string(60, ']');
  EXPECT_LT(seconds_of([&] {
              EXPECT_NE(yaml_error("a: " + nested).find("anchors name more than 100000 values"), std::string::npos);
            }),
            10);
  std::string keys, json = "{";
  for (int i = 0; i < 40000; ++i) {
    keys += cat("k", i, ": 1\n");
    json += cat(i ? "," : "", "\"k", i, "\": 1");
  }
  EXPECT_LT(seconds_of([&] {
              EXPECT_NE(yaml_error(keys).find("r.yaml:5001:1: more than 5000 keys in one section"), std::string::npos)
                  << yaml_error(keys);
            }),
            10);
  EXPECT_LT(seconds_of([&] {
              EXPECT_EQ(kit::error_of([&] { parse_json_node(json + "}", "config.json"); }),
                        "json: 'config.json': an object has more than 5000 keys");
            }),
            10);
  // Where any number may stand, they are read in their order of growth.
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(parse_json_sorted(json + "}", "x", true).size(), 40000u); }), 10);
  EXPECT_NE(kit::error_of([&] { parse_json_sorted(R"({"a": 1, "a": 2})", "x", true); }).find("stands twice"),
            std::string::npos);
}

// YAML 1.1 takes 1e-08 for a text: its numbers have a point.
TEST(Fields, NumbersAreNumbersForEveryReader) {
  struct {
    double tiny = 1e-8, small = 1.5e-7, huge = 1e30, plain = 0.25;
    void fields(Fields& f) {
      f("tiny", tiny, "");
      f("small", small, "");
      f("huge", huge, "");
      f("plain", plain, "");
    }
  } config;
  const Node node = write_fields([&](Fields& f) { config.fields(f); });
  EXPECT_EQ(to_yaml(node), "tiny: 1.0e-08\nsmall: 1.5e-07\nhuge: 1.0e+30\nplain: 0.25\n");
  config.tiny = 0;
  read_fields(parse_yaml(to_yaml(node), "r.yaml"), "", [&](Fields& f) { config.fields(f); });
  EXPECT_EQ(config.tiny, 1e-8);
}

// Any text of a recipe comes back from what is stored.
TEST(Node, TextsComeBackFromYamlAndJson) {
  for (const std::string text :
       {"",     " ",    "null",       "Null", "NULL", "~",    "true",       "True", "yes",      "1",
        "1e5",  "0x1f", "-",          "- a",  "a: b", "a #b", "#",          "'",    "\"",       "\\",
        "\n",   "a\nb", "a\n\n b \n", "\t",   "*a",   "&a",   "!x",         "|",    ">",        "%",
        "@",    "`",    "{",          "[",    "]",    "},",   "---",        "...",  "\xc3\xa4", "\xe2\x82\xac",
        "\x01", "\x7f", "a\rb",       "=",    "<<",   "? x",  "2026-01-01", ".inf", ".nan"}) {
    Node root = Node::map();
    root.set("key", Node::scalar(text, {}, true));
    const Node list = Node::list({Node::scalar(text, {}, true)});
    root.set("list", list);
    for (const Node& back : {parse_yaml(to_yaml(root), "stored"), parse_json_node(to_json(root), "stored")}) {
      ASSERT_TRUE(back.find("key")) << text;
      EXPECT_TRUE(back.find("key")->is_scalar()) << text;
      EXPECT_EQ(back.find("key")->text(), text);
      EXPECT_EQ(back.find("list")->items()[0].text(), text);
    }
  }
}

TEST(Node, AtFollowsAPathThroughMaps) {
  const Node root = parse_yaml("a: {b: {c: 3}, list: [1, 2]}\nd: 4\n", "x.yaml");
  ASSERT_NE(node_at(root, "a.b.c"), nullptr);
  EXPECT_EQ(node_at(root, "a.b.c")->text(), "3");
  EXPECT_EQ(node_at(root, "d"), root.find("d"));
  EXPECT_TRUE(node_at(root, "a.b")->is_map());
  for (const char* none : {"", "x", "a.x", "d.c", "a.list.0", "a.b.c.d", "a.", ".a"})
    EXPECT_EQ(node_at(root, none), nullptr) << none;
}

}  // namespace
}  // namespace lithe
