#include "lithe/infer/grammar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lithe/base/error.h"
#include "lithe/base/random.h"
#include "lithe/infer/grammar_machine.h"
#include "lithe/infer/grammar_step.h"
#include "lithe/infer/json_grammar.h"
#include "lithe/text/utf8.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

enum class Reading { whole, begun, none };

Reading read(GrammarMachine& machine, std::string_view text) {
  int32_t state = machine.start();
  for (const char c : text) {
    if (state == GrammarMachine::kNowhere) return Reading::none;
    machine.begin_work();
    state = machine.next(state, uint8_t(c));
  }
  if (state == GrammarMachine::kNowhere) return Reading::none;
  return machine.accepts(state) ? Reading::whole : Reading::begun;
}

void expect_texts(Grammar grammar, const std::vector<std::string>& whole, const std::vector<std::string>& none) {
  GrammarMachine machine(std::move(grammar));
  for (const std::string& text : whole) {
    EXPECT_EQ(read(machine, text), Reading::whole) << text;
    for (size_t n = 0; n < text.size(); ++n) EXPECT_NE(read(machine, text.substr(0, n)), Reading::none) << text << n;
  }
  for (const std::string& text : none) EXPECT_NE(read(machine, text), Reading::whole) << text;
}

TEST(Gbnf, ReadsWhatLlamaCppWrites) {
  expect_texts(parse_gbnf("# a move\nroot ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move "
                          "\"\\n\")+\nmove ::= (pawn | nonpawn |\n  castle) [+#]?\nnonpawn ::= [NBKQR] [a-h]? [1-8]? "
                          "\"x\"? [a-h] [1-8]\npawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\ncastle ::= "
                          "\"O-O\" \"-O\"?\n"),
               {"1. e4 e5\n2. Nf3 Nc6\n", "1. O-O-O exd5+\n10. e8=Q# a1\n"}, {"1. e9", "2. e4", "1. e4 e5\n"});
  expect_texts(parse_gbnf("root ::= \"\\x41\\u00e9\" [^a-c\\]é]{2,3} .?"), {"Aédd", "Aé日x", "Aézzz", "Aézzzé"},
               {"Aéa", "Aéd", "Aéédd", "Aédddxx"});
  expect_texts(parse_gbnf("root ::= \"a\"{0} \"b\"{2,} | \"\""), {"", "bb", "bbbbb"}, {"b", "a", "abb"});
  expect_texts(parse_gbnf("root ::= x\nx ::= \"(\" x \")\" | \"x\""), {"x", "((x))"}, {"(x", "x)", "((x)"});
}

TEST(Gbnf, RefusesWithTheLine) {
  const auto error = [](const std::string& source) { return kit::error_of([&] { parse_gbnf(source); }); };
  EXPECT_EQ(error(""), "grammar: there is no rule 'root', with which every text begins");
  EXPECT_EQ(error("root ::= a"), "grammar: line 1: no rule is named 'a'");
  EXPECT_EQ(error("root ::= \"a\n\""), "grammar: line 1: a text or a class does not end on its line");
  EXPECT_EQ(error("\nroot = \"a\""), "grammar: line 2: '::=' was expected behind 'root', not '='");
  EXPECT_EQ(error("root ::= (\"a\""), "grammar: line 1: ')' was expected, not the end");
  EXPECT_EQ(error("root ::= \"a\"\nroot ::= \"b\""), "grammar: line 2: rule 'root' is written twice");
  EXPECT_NE(error("root ::= root \"a\" | \"b\"").find("rule 'root' may begin with itself"), std::string::npos);
  EXPECT_NE(error("root ::= (\"a\"?)*").find("repeats what may be empty"), std::string::npos);
  EXPECT_NE(error("root ::= \"a\" b\nb ::= \"c\" b").find("never ends"), std::string::npos);
  EXPECT_NE(error("root ::= \"a\"{1000000}").find("at most"), std::string::npos);
  EXPECT_NE(error("root ::= \"a\"{3,2}").find("repeats from 3 to 2 times"), std::string::npos);
  EXPECT_NE(error("root ::= [b-a]").find("ends before it begins"), std::string::npos);
  EXPECT_NE(error("root ::= [^\\U00000000-\\U0010FFFF]").find("class without a character"), std::string::npos);
}

// Where readings of `sequence` from `at` on may end, found by trying all.
std::set<size_t> ends(const Grammar& g, const Grammar::Sequence& sequence, const std::string& text, size_t at) {
  std::set<size_t> from{at};
  for (const Grammar::Symbol& symbol : sequence) {
    std::set<size_t> to;
    for (const size_t p : from)
      if (symbol.rule < 0) {
        if (p < text.size() && g.byte_sets[size_t(symbol.bytes)][uint8_t(text[p])]) to.insert(p + 1);
      } else {
        for (const Grammar::Sequence& choice : g.rules[size_t(symbol.rule)].choices) to.merge(ends(g, choice, text, p));
      }
    from = std::move(to);
  }
  return from;
}

// Random grammars, ambiguous ones and such with empty rules among them: all short texts are read as by trying.
TEST(GrammarMachine, IsWhatTryingAllReadingsSays) {
  int compared = 0;
  for (uint64_t seed = 1; compared < 150 && seed < 2000; ++seed) {
    uint64_t used = 0;
    const auto below = [&](uint64_t n) { return random_below({.seed = seed, .purpose = 3}, used++, n); };
    std::string source;
    const uint64_t rules = 1 + below(4);
    for (uint64_t r = 0; r < rules; ++r) {
      source += cat(r ? cat("r", r) : "root", " ::=");
      for (uint64_t choices = 1 + below(3), c = 0; c < choices; ++c) {
        source += c ? " |" : "";
        for (uint64_t length = below(4), i = 0; i < length; ++i) {
          const uint64_t what = below(5);
          source += what < 2    ? " \"a\""
                    : what == 2 ? " \"b\""
                                : cat(" ", rules > 1 ? cat("r", 1 + below(rules - 1)) : "\"b\"");
          if (below(6) == 0) source += below(2) ? "?" : "{0,2}";
        }
        if (source.back() == '|' || source.back() == '=') source += " \"\"";
      }
      source += "\n";
    }
    Grammar grammar;
    try {
      grammar = parse_gbnf(source);
    } catch (const Error&) {
      continue;
    }
    ++compared;
    GrammarMachine machine(grammar);
    std::vector<std::string> texts{""};
    for (size_t i = 0; i < texts.size(); ++i)
      if (texts[i].size() < 6)
        for (const char c : {'a', 'b'}) texts.push_back(texts[i] + c);
    std::set<std::string> begun;
    for (size_t i = texts.size(); i-- > 0;) {
      const std::string& text = texts[i];
      const bool whole = ends(grammar, {{.rule = grammar.root, .bytes = -1}}, text, 0).contains(text.size());
      EXPECT_EQ(read(machine, text) == Reading::whole, whole) << source << "text '" << text << "'";
      if (whole)
        for (size_t n = 0; n <= text.size(); ++n) begun.insert(text.substr(0, n));
    }
    for (const std::string& text : begun) EXPECT_NE(read(machine, text), Reading::none) << source << text;
  }
  EXPECT_GE(compared, 100);
}

// A pile of readings is one stack, and lists do not grow it.
TEST(GrammarMachine, StatesAreShared) {
  GrammarMachine ambiguous(parse_gbnf("root ::= s\ns ::= \"\" | \"x\" s \"y\" | \"x\" s \"z\""));
  std::string text(300, 'x');
  for (int i = 0; i < 300; ++i) text += i % 3 ? 'y' : 'z';
  EXPECT_EQ(read(ambiguous, text), Reading::whole);
  EXPECT_LT(ambiguous.bytes(), int64_t(4) << 20);
  GrammarMachine list(json_object_grammar());
  std::string json = "{\"a\": [1";
  EXPECT_EQ(read(list, json + ", 2"), Reading::begun);
  const int64_t before = list.bytes();
  for (int i = 0; i < 500; ++i) json += ", 2";
  EXPECT_EQ(read(list, json + "]}"), Reading::whole);
  EXPECT_LT(list.bytes() - before, 40000);
}

Json schema(const std::string& text) { return parse_json(text, "schema"); }

TEST(JsonSchema, TextsThatAreValid) {
  expect_texts(json_object_grammar(),
               {"{}", R"({"a": [1, -2.5e3, "x\né\u00e9", {}, null, true]})", R"({"a":{"b":{"c":[[]]}}})"},
               {"[]", "1", "{", R"({"a": 01})", R"({"a": "\ud800"})", R"({a: 1})", "{\"a\": \"\n\"}", R"({"a": 1,})"});
  expect_texts(
      json_schema_grammar(schema(R"({"type": "object", "properties": {"name": {"type": "string"}, "age":
                   {"type": "integer", "minimum": 0, "maximum": 130}, "tags": {"type": "array", "items": {"enum": ["x",
                   "y"]}, "maxItems": 2}}, "required": ["name"]})")),
      {R"({"name": "A"})", R"({"name": "", "age": 130, "tags": ["x", "y"]})", R"({"name": "A", "tags": []})"},
      {"{}", R"({"age": 3})", R"({"name": 1})", R"({"name": "A", "age": 131})", R"({"name": "A", "age": -1})",
       R"({"name": "A", "tags": ["x", "y", "x"]})", R"({"name": "A", "tags": ["z"]})", R"({"name": "A", "b": 1})"});
  expect_texts(
      json_schema_grammar(schema(R"({"properties": {"a": {"type": "null"}, "b": true}, "required": ["b", "c"],
                   "additionalProperties": {"type": "boolean"}})")),
      {R"({"b": 1, "c": true})", R"({"a": null, "b": "x", "c": false, "d": true, "ab": false})"},
      {R"({"b": 1})", R"({"b": 1, "c": 1})", R"({"b": 1, "c": true, "a": true})", R"({"b": 1, "c": true, "d": 1})"});
  expect_texts(json_schema_grammar(schema(R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type":
                   "number"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value",
                   "next"], "additionalProperties": false}}, "$ref": "#/$defs/node"})")),
               {R"({"value": 1.5, "next": {"value": -2, "next": null}})"}, {R"({"value": 1})", "null"});
  expect_texts(json_schema_grammar(schema(R"({"type": "array", "prefixItems": [{"const": "p"}, {"type": "integer"}],
                   "items": {"type": "boolean"}, "minItems": 1, "maxItems": 4})")),
               {R"(["p"])", R"(["p", 1])", R"(["p", 1, true, false])"},
               {"[]", "[1]", R"(["p", true])", R"(["p", 1, true, true, true])", R"(["p", 1, 2])"});
  expect_texts(json_schema_grammar(schema(R"({"type": "string", "minLength": 2, "maxLength": 3})")),
               {R"("ab")", R"("日本語")", R"("\n\n")", R"("\ud83d\ude00a")"}, {R"("a")", R"("abcd")", R"("\n")"});
  expect_texts(json_schema_grammar(schema(R"({"type": ["integer", "null"], "exclusiveMinimum": -12, "maximum": 105})")),
               {"null", "-11", "-1", "0", "9", "10", "99", "100", "105"}, {"-12", "106", "-0", "1.0", "-20"});
  expect_texts(json_schema_grammar(schema(R"({"type": "number", "minimum": -1.5, "maximum": 2})")),
               {"-1", "-0.5", "0", "1.999", "2"}, {"-1.6", "2.1", "-2", "3"});
  expect_texts(json_schema_grammar(schema("{}")), {"1", "[]", "null", "\"x\"", "{}"}, {"", "x"});
  expect_texts(json_schema_grammar(schema(R"({"oneOf": [{"type": "object", "properties": {"k": {"const": 1}},
                   "required": ["k"]}, {"type": "object", "properties": {"k": {"const": 2}}, "required": ["k"]}]})")),
               {R"({"k": 1})", R"({"k": 2})"}, {R"({"k": 3})", "{}"});
}

TEST(JsonSchema, PatternsAndFormats) {
  const auto of = [](const std::string& pattern) {
    return json_schema_grammar({{"type", "string"}, {"pattern", pattern}});
  };
  expect_texts(of("^[A-Z]{2}-\\d+$"), {R"("AB-1")", R"("XY-123")"}, {R"("A-1")", R"("AB-")", R"("AB-1x")"});
  expect_texts(of("b+"), {R"("b")", R"("abbc")", R"("\nb")"}, {R"("a")", R"("")"});
  expect_texts(of("^(a|\"\\\\)?\\n[^x]$"), {R"("a\n\"")", R"("\"\\\nb")", R"("\n\u0001")"}, {R"("\nx")", R"("a")"});
  expect_texts(of("^a|b$"), {R"("axx")", R"("xxb")"}, {R"("xa")", R"("bx")"});
  expect_texts(json_schema_grammar({{"type", "string"}, {"format", "date"}}), {R"("2024-02-28")", R"("1999-12-31")"},
               {R"("2024-02-30")", R"("2024-13-01")", R"("24-01-01")"});
  expect_texts(json_schema_grammar({{"format", "ipv4"}}), {R"("255.0.10.99")"}, {R"("256.0.0.1")", R"("1.2.3")"});
}

TEST(JsonSchema, WhatCannotBeCompiledIsRefusedByName) {
  const auto error = [](const std::string& text) { return kit::error_of([&] { json_schema_grammar(schema(text)); }); };
  EXPECT_EQ(error("false"), "json_schema: # is false, which no value satisfies");
  EXPECT_EQ(error(R"({"not": {"type": "null"}})"), "json_schema: # has 'not', which cannot be compiled; leave it out");
  EXPECT_EQ(error(R"({"properties": {"a": {"type": "string", "minimun": 1}}})"),
            "json_schema: #/properties/a has 'minimun', which cannot be compiled; leave it out");
  EXPECT_NE(error(R"({"type": "strin"})").find("has the type \"strin\""), std::string::npos);
  EXPECT_NE(error(R"({"$ref": "#/$defs/a"})").find("which is not there"), std::string::npos);
  EXPECT_NE(error(R"({"$ref": "http://a/b"})").find("only places in the same schema"), std::string::npos);
  EXPECT_NE(error(R"({"$ref": "#"})").find("never ends"), std::string::npos);
  EXPECT_NE(error(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})").find("never ends"),
            std::string::npos);
  EXPECT_NE(error(R"({"$defs": {"a": {"type": "object", "properties": {"k": {"$ref": "#/$defs/a"}}, "required": ["k"]}},
                     "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]})")
                .find("may both be valid"),
            std::string::npos);
  EXPECT_NE(error(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})").find("may both be valid"),
            std::string::npos);
  EXPECT_NE(error(R"({"type": "array", "uniqueItems": true})").find("'uniqueItems'"), std::string::npos);
  EXPECT_NE(error(R"x({"type": "string", "pattern": "(?=a)"})x").find("of a kind that is not supported"),
            std::string::npos);
  EXPECT_NE(error(R"({"type": "string", "pattern": "\\bx"})").find("'\\b'"), std::string::npos);
  EXPECT_NE(error(R"({"type": "string", "format": "email"})").find("known are date"), std::string::npos);
  EXPECT_NE(error(R"({"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 2})").find("leaves no whole number"),
            std::string::npos);
  EXPECT_NE(error(R"({"type": "object", "required": ["a"], "additionalProperties": false})").find("does not allow"),
            std::string::npos);
}

std::unique_ptr<Tokenizer> tokenizer_of_json() {
  const std::string text =
      R"({"name": "value", "a": [1, 2, 3], "tags": ["x", "y"]}, {"é": "日本", "n": -12.5e3}, true, null)";
  const std::vector<std::string_view> texts(20, text);
  return train_bpe(texts, {.vocab_size = 330});
}

// Masks over tokens of several bytes are what reading each token alone says, and texts that are drawn so are valid.
TEST(GrammarStep, MasksAreWhatEachTokenSaysAndTextsAreValid) {
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of_json();
  const auto tokens = std::make_shared<TokenBytes>(*tokenizer);
  const Json wanted =
      schema(R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "a": {"type":
      "array", "items": {"type": "integer", "minimum": -20, "maximum": 300}, "minItems": 1, "maxItems": 3}}, "required":
      ["name", "a"]})");
  for (const int form : {0, 1}) {
    const auto masks =
        std::make_shared<GrammarMasks>(tokens, form ? json_object_grammar() : json_schema_grammar(wanted));
    const int32_t end = *tokenizer->specials().eos;
    const auto step = grammar_step(masks, {end}, false);
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      std::vector<int32_t> text{7};
      bool done = false;
      for (uint64_t n = 0; n < 400 && !done; ++n) {
        std::vector<float> scores(size_t(tokenizer->vocab_size()) + 3);
        for (size_t i = 0; i < scores.size(); ++i)
          scores[i] = float(random_uniform({.seed = seed, .purpose = 7}, n * 1000 + i)) + (int32_t(i) == end ? 1 : 0) +
                      (n > 60 && i < size_t(tokenizer->vocab_size()) &&
                               tokens->of(int32_t(i)).find_first_of("]}\"") != std::string::npos
                           ? 1
                           : 0);
        LogitRow row{.choice = TokenChoice(scores), .tokens = text, .prompt_tokens = 1};
        std::vector<LogitRow*> rows{&row};
        step->apply(rows);
        if (n % 7 == 0 && !row.end) {
          const std::string so_far = tokenizer->decode(std::span(text).subspan(1));
          const int32_t state = masks->after(masks->machine().start(), so_far);
          for (int32_t id = 0; id < int32_t(scores.size()); ++id) {
            const bool fits = id < tokens->size() && !tokens->of(id).empty() &&
                              masks->after(state, tokens->of(id)) != GrammarMachine::kNowhere;
            EXPECT_EQ(std::isfinite(scores[size_t(id)]), fits || (id == end && masks->machine().accepts(state))) << id;
          }
        }
        const int32_t token = row.end ? end : row.choice.choose(0.5);
        done = token == end;
        if (!done) text.push_back(token);
      }
      if (!done) continue;  // deep in brackets
      const std::string written = tokenizer->decode(std::span(text).subspan(1));
      const Json value = parse_json(written, written);
      ASSERT_TRUE(value.is_object()) << written;
      if (form) continue;
      EXPECT_LE(std::string(value["name"]).size(), 20u);
      EXPECT_TRUE(value["a"].size() >= 1 && value["a"].size() <= 3) << written;
      for (const Json& x : value["a"]) EXPECT_TRUE(x.get<int64_t>() >= -20 && x.get<int64_t>() <= 300) << written;
    }
  }
}

// Behind a drafted token that does not fit nothing is chosen, and the row says so in place of failing.
TEST(GrammarStep, RowsBehindWrongDraftsEnd) {
  const auto tokenizer = make_byte_tokenizer();
  const auto step = grammar_step(
      std::make_shared<GrammarMasks>(std::make_shared<TokenBytes>(*tokenizer), parse_gbnf("root ::= \"ab\"")), {256},
      false);
  const auto end_of = [&](std::vector<int32_t> text) {
    std::vector<float> scores(257, 0);
    LogitRow row{.choice = TokenChoice(scores), .tokens = text, .prompt_tokens = 1};
    std::vector<LogitRow*> rows{&row};
    step->apply(rows);
    return row.end;
  };
  EXPECT_EQ(end_of({1, 'x'}), Finish::failed);
  EXPECT_EQ(end_of({1, 'a'}), std::nullopt);
  EXPECT_EQ(end_of({1, 'a', 'b'}), Finish::end);
}

TEST(GrammarStep, WhatTakesTooLongIsRefused) {
  std::string source = "root ::= x{20000}\nx ::= ";
  for (int i = 0; i < 30; ++i) source += cat(i ? " | " : "", "\"a\" r", i, "?");
  source += "\n";
  for (int i = 0; i < 30; ++i) source += cat("r", i, " ::= [a-z]{0,30} \"", char('a' + i % 26), "\"\n");
  GrammarMachine machine(parse_gbnf(source));
  const std::string error = kit::error_of([&] {
    machine.begin_work();
    int32_t state = machine.start();
    for (int i = 0; i < 5000; ++i) state = machine.next(state, 'a');
  });
  EXPECT_EQ(error.rfind("grammar: ", 0), 0u) << error;
}

}  // namespace
}  // namespace lithe
