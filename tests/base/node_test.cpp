#include "lithe/base/node.h"

#include "lithe/base/error.h"
#include "lithe/base/fields.h"

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
  read_fields(parse_yaml("hidden_size: 16\ntrain: {learning_rate: 3e-4}", "r.yaml"), "", [&](Fields& f) { c.fields(f); });
  EXPECT_EQ(c.width, 16);
  EXPECT_EQ(c.kind, "a");
  EXPECT_DOUBLE_EQ(c.train.rate, 3e-4);
}

TEST(Fields, ErrorsNamePlaceKeyAndRemedy) {
  EXPECT_EQ(error_of("hiden_size: 16"), "recipe: r.yaml:1:13: unknown key 'hiden_size' at the top level; did you mean 'hidden_size'?");
  EXPECT_EQ(error_of("train:\n  learning_rat: 1"), "recipe: r.yaml:2:17: unknown key 'learning_rat' in section 'train'; did you mean 'learning_rate'?");
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

}  // namespace
}  // namespace lithe
