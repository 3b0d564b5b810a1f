// Context-free grammars over bytes: what a text may be, for steps that let nothing else through.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lithe {

struct Grammar {
  using Bytes = std::bitset<256>;
  struct Symbol {
    int32_t rule = -1, bytes = -1;  // one of both: a rule, or a set of bytes, one of which stands there
  };
  using Sequence = std::vector<Symbol>;
  struct Rule {
    std::string name;
    std::vector<Sequence> choices;
  };
  std::vector<Rule> rules;
  std::vector<Bytes> byte_sets;
  int32_t root = 0;
};

/// Characters from first to second, by their code points, both included.
using CharRange = std::pair<uint32_t, uint32_t>;
using CharRanges = std::vector<CharRange>;
/// In order and apart from each other, without surrogates.
CharRanges tidy(CharRanges ranges);
/// All characters but those.
CharRanges others(const CharRanges& ranges);

/// Makes a grammar piece by piece. Each piece is a sequence that may stand in choices of rules.
class GrammarBuilder {
 public:
  using Sequence = Grammar::Sequence;
  /// `operation` stands in errors.
  explicit GrammarBuilder(std::string operation) : operation_(std::move(operation)) {}

  /// Without choices yet.
  int32_t add_rule(std::string name);
  void set(int32_t rule, std::vector<Sequence> choices) { grammar_.rules[size_t(rule)].choices = std::move(choices); }
  /// Helpers that are made from now on go by the name of this rule in errors.
  void within(int32_t rule) { owner_ = grammar_.rules[size_t(rule)].name; }

  static Sequence call(int32_t rule) { return {{.rule = rule, .bytes = -1}}; }
  Sequence text(std::string_view bytes);
  /// One character.
  Sequence one_of(const CharRanges& ranges);
  Sequence either(std::vector<Sequence> choices);
  Sequence optional(Sequence x) { return either({std::move(x), {}}); }
  /// So many times, without `most` as often as one likes.
  Sequence repeat(const Sequence& x, int64_t least, std::optional<int64_t> most);
  /// The same as one symbol, to stand in several places.
  Sequence shared(const Sequence& x) { return x.size() > 1 ? call(helper({x})) : x; }
  static Sequence join(std::vector<Sequence> parts);

  /// Fails (usage) on a rule without choices, one that begins with itself, and one that never ends.
  Grammar finish(int32_t root);

 private:
  std::string operation_, owner_;
  Grammar grammar_;
  std::map<std::string, int32_t> sets_;
  std::map<CharRanges, Sequence> classes_;
  int64_t symbols_ = 0;

  Grammar::Symbol bytes(const Grammar::Bytes& set);
  int32_t helper(std::vector<Sequence> choices);
  void count(int64_t symbols);
};

/// What follows from the rules alone.
struct GrammarFacts {
  std::vector<bool> may_be_empty;  // of each rule
  std::vector<int32_t> order;      // of each rule: rules that it begins with have later places
};
/// Fails (usage) where a rule begins with itself, naming it.
GrammarFacts facts_of(const Grammar& grammar, const std::string& operation);

/// A grammar in the form of llama.cpp (GBNF): lines `name ::= choices`, "texts", [classes], groups, `|`, `*`, `+`, `?`,
/// `{m,n}`, `.` and `#` comments; the text is what rule `root` says. Fails (usage), with the line, on what it cannot
/// read, on rules that are missing, written twice, begin with themselves or never end.
Grammar parse_gbnf(std::string_view source);

}  // namespace lithe
