#include "lithe/infer/grammar.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr uint32_t kLastChar = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;
constexpr int64_t kMostSymbols = 200000;  // of a grammar, repetitions written out

using ByteRanges = std::vector<std::pair<uint8_t, uint8_t>>;  // one a byte of the character

// The characters from `low` to `high` as sequences of ranges of bytes.
void split(uint32_t low, uint32_t high, std::vector<ByteRanges>& out) {
  for (const uint32_t last : {0x7Fu, 0x7FFu, 0xFFFFu})
    if (low <= last && last < high) return split(low, last, out), split(last + 1, high, out);
  const int more = high <= 0x7F ? 0 : high <= 0x7FF ? 1 : high <= 0xFFFF ? 2 : 3;  // bytes behind the first
  for (int i = 1; i <= more; ++i) {
    const uint32_t rest = (1u << (6 * i)) - 1;
    if ((low & ~rest) == (high & ~rest)) continue;
    if (low & rest) return split(low, low | rest, out), split((low | rest) + 1, high, out);
    if ((high & rest) != rest) return split(low, (high & ~rest) - 1, out), split(high & ~rest, high, out);
  }
  std::string first, last;
  append_utf8(first, low);
  append_utf8(last, high);
  ByteRanges ranges;
  for (size_t i = 0; i < first.size(); ++i) ranges.push_back({uint8_t(first[i]), uint8_t(last[i])});
  out.push_back(std::move(ranges));
}

}  // namespace

CharRanges tidy(CharRanges ranges) {
  CharRanges whole;
  for (const auto& [low, high] : ranges) {
    if (low < kFirstSurrogate && low <= high) whole.push_back({low, std::min(high, kFirstSurrogate - 1)});
    if (high > kLastSurrogate && low <= high)
      whole.push_back({std::max(low, kLastSurrogate + 1), std::min(high, kLastChar)});
  }
  std::sort(whole.begin(), whole.end());
  CharRanges out;
  for (const CharRange& range : whole)
    if (!out.empty() && range.first <= out.back().second + 1)
      out.back().second = std::max(out.back().second, range.second);
    else
      out.push_back(range);
  return out;
}

CharRanges others(const CharRanges& ranges) {
  CharRanges out;
  uint32_t next = 0;
  for (const auto& [low, high] : tidy(ranges)) {
    if (low > next) out.push_back({next, low - 1});
    next = high + 1;
  }
  if (next <= kLastChar) out.push_back({next, kLastChar});
  return tidy(out);
}

void GrammarBuilder::count(int64_t symbols) {
  symbols_ += symbols;
  check_usage(symbols_ <= kMostSymbols, operation_, "the grammar comes to more than ", kMostSymbols,
              " symbols with its repetitions written out; repeat less, or without an upper limit");
}

int32_t GrammarBuilder::add_rule(std::string name) {
  count(1);
  grammar_.rules.push_back({std::move(name), {}});
  return int32_t(grammar_.rules.size()) - 1;
}

int32_t GrammarBuilder::helper(std::vector<Sequence> choices) {
  for (const Sequence& choice : choices) count(1 + int64_t(choice.size()));
  grammar_.rules.push_back({owner_, std::move(choices)});
  return int32_t(grammar_.rules.size()) - 1;
}

Grammar::Symbol GrammarBuilder::bytes(const Grammar::Bytes& set) {
  const auto [at, added] = sets_.try_emplace(set.to_string(), int32_t(grammar_.byte_sets.size()));
  if (added) grammar_.byte_sets.push_back(set);
  return {.rule = -1, .bytes = at->second};
}

GrammarBuilder::Sequence GrammarBuilder::text(std::string_view text) {
  count(int64_t(text.size()));
  Sequence out;
  for (const char c : text) out.push_back(bytes(Grammar::Bytes().set(uint8_t(c))));
  return out;
}

GrammarBuilder::Sequence GrammarBuilder::one_of(const CharRanges& given) {
  const CharRanges ranges = tidy(given);
  check_usage(!ranges.empty(), operation_, "rule '", owner_, "' has a class without a character");
  if (const auto at = classes_.find(ranges); at != classes_.end()) return at->second;
  std::vector<ByteRanges> parts;
  for (const auto& [low, high] : ranges) split(low, high, parts);
  Grammar::Bytes single;
  std::vector<Sequence> choices;
  for (const ByteRanges& part : parts) {
    Sequence sequence;
    for (const auto& [first, last] : part) {
      Grammar::Bytes set;
      for (unsigned b = first; b <= last; ++b) (part.size() == 1 ? single : set).set(b);
      if (part.size() > 1) sequence.push_back(bytes(set));
    }
    if (part.size() > 1) choices.push_back(std::move(sequence));
  }
  if (single.any()) choices.insert(choices.begin(), {bytes(single)});
  return classes_[ranges] = choices.size() == 1 ? choices[0] : call(helper(std::move(choices)));
}

GrammarBuilder::Sequence GrammarBuilder::either(std::vector<Sequence> choices) {
  return choices.size() == 1 ? std::move(choices[0]) : call(helper(std::move(choices)));
}

GrammarBuilder::Sequence GrammarBuilder::repeat(const Sequence& given, int64_t least, std::optional<int64_t> most) {
  check_usage(least >= 0 && (!most || *most >= least), operation_, "rule '", owner_, "' repeats from ", least, " to ",
              most.value_or(0), " times; the first number must not be the larger one");
  check_usage(std::max(least, most.value_or(0)) <= kMostSymbols, operation_, "rule '", owner_, "' repeats ",
              std::max(least, most.value_or(0)), " times, at most ", kMostSymbols, " are supported");
  const Sequence x = shared(given);
  count(least);
  Sequence out;
  for (int64_t i = 0; i < least; ++i) out.insert(out.end(), x.begin(), x.end());
  if (!most) {
    const int32_t more = helper({});
    set(more, {join({x, call(more)}), {}});
    return join({out, call(more)});
  }
  Sequence rest;
  for (int64_t i = least; i < *most; ++i) rest = call(helper({join({x, rest}), {}}));
  return join({out, rest});
}

GrammarBuilder::Sequence GrammarBuilder::join(std::vector<Sequence> parts) {
  Sequence out;
  for (const Sequence& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

namespace {

// Rules with a choice of symbols that all fit: rules that are found, and bytes where these do.
std::vector<bool> rules_that_fit(const Grammar& grammar, bool bytes_fit) {
  struct Choice {
    int32_t rule;
    int64_t missing;
  };
  std::vector<Choice> choices;
  std::vector<std::vector<size_t>> waiting(grammar.rules.size());  // choices, by the rules that they wait for
  std::vector<int32_t> found;
  std::vector<bool> out(grammar.rules.size());
  const auto find = [&](int32_t rule) {
    if (!out[size_t(rule)]) found.push_back(rule);
    out[size_t(rule)] = true;
  };
  for (size_t r = 0; r < grammar.rules.size(); ++r)
    for (const Grammar::Sequence& sequence : grammar.rules[r].choices) {
      choices.push_back({int32_t(r), 0});
      for (const Grammar::Symbol& symbol : sequence) {
        if (symbol.rule < 0 && bytes_fit) continue;
        ++choices.back().missing;
        if (symbol.rule >= 0) waiting[size_t(symbol.rule)].push_back(choices.size() - 1);
      }
      if (choices.back().missing == 0) find(int32_t(r));
    }
  while (!found.empty()) {
    const int32_t rule = found.back();
    found.pop_back();
    for (const size_t c : waiting[size_t(rule)])
      if (--choices[c].missing == 0) find(choices[c].rule);
  }
  return out;
}

}  // namespace

GrammarFacts facts_of(const Grammar& grammar, const std::string& operation) {
  GrammarFacts out;
  out.may_be_empty = rules_that_fit(grammar, false);
  const size_t n = grammar.rules.size();
  std::vector<std::vector<int32_t>> begins(n);  // rules that a rule may begin with
  for (size_t r = 0; r < n; ++r)
    for (const Grammar::Sequence& choice : grammar.rules[r].choices)
      for (const Grammar::Symbol& symbol : choice) {
        if (symbol.rule < 0) break;
        begins[r].push_back(symbol.rule);
        if (!out.may_be_empty[size_t(symbol.rule)]) break;
      }
  // Depth first, without a stack of calls: chains of helpers are long.
  out.order.assign(n, -1);
  std::vector<bool> open(n);
  auto place = int32_t(n);
  for (size_t first = 0; first < n; ++first) {
    if (out.order[first] >= 0) continue;
    std::vector<std::pair<size_t, size_t>> path{{first, 0}};
    open[first] = true;
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == begins[rule].size()) {
        open[rule] = false;
        out.order[rule] = --place;
        path.pop_back();
        continue;
      }
      const auto to = size_t(begins[rule][next++]);
      check_usage(!open[to], operation, "rule '", grammar.rules[to].name,
                  "' may begin with itself, or repeats what may be empty; write the repetition as x*, of an x that is "
                  "never empty");
      if (out.order[to] >= 0) continue;
      open[to] = true;
      path.push_back({to, 0});
    }
  }
  return out;
}

Grammar GrammarBuilder::finish(int32_t root) {
  grammar_.root = root;
  const std::vector<bool> ends = rules_that_fit(grammar_, true);
  for (size_t r = 0; r < grammar_.rules.size(); ++r)
    check_usage(ends[r], operation_, "rule '", grammar_.rules[r].name,
                "' never ends: each of its choices needs a rule that needs it again; give it one that does not");
  facts_of(grammar_, operation_);
  return std::move(grammar_);
}

}  // namespace lithe
