#include "lithe/infer/grammar_machine.h"

#include <algorithm>
#include <set>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr size_t kMostItems = 50000;    // of one state
constexpr int64_t kMostWork = 4000000;  // items of new states, for one token
constexpr int32_t kUnknown = -2;

void tidy_items(auto& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

}  // namespace

size_t GrammarMachine::Hash::operator()(const Items& items) const {
  uint64_t out = 0x9E3779B97F4A7C15u;
  for (const Item& item : items) {
    out ^= uint64_t(uint32_t(item.place)) << 32 | uint32_t(item.below);
    out *= 0xFF51AFD7ED558CCDu;
    out ^= out >> 32;
  }
  return size_t(out);
}

GrammarMachine::GrammarMachine(Grammar grammar)
    : byte_sets_(std::move(grammar.byte_sets)), facts_(facts_of(grammar, "grammar")) {
  for (const Grammar::Rule& rule : grammar.rules) {
    std::vector<int32_t> begins;
    for (const Grammar::Sequence& choice : rule.choices) {
      begins.push_back(int32_t(places_.size()));
      places_.insert(places_.end(), choice.begin(), choice.end());
      places_.push_back({});
    }
    begins_.push_back(std::move(begins));
  }
  begin_ = int32_t(places_.size());
  places_.push_back({.rule = grammar.root, .bytes = -1});
  places_.push_back({});
}

void GrammarMachine::forget() {
  states_.clear();
  stacks_.clear();
  numbers_of_states_.clear();
  numbers_of_stacks_.clear();
  bytes_ = 0;
}

int32_t GrammarMachine::start() { return state_of({{begin_, -1}}); }

int32_t GrammarMachine::number(std::unordered_map<Items, int32_t, Hash>& numbers, const Items& items, int32_t next) {
  const auto [at, added] = numbers.try_emplace(items, next);
  if (added) bytes_ += int64_t(2 * items.size() * sizeof(Item)) + 64;
  return at->second;
}

// The texts behind `items`: what is read to its end goes on below, what may be empty is skipped, and rules begin. No
// rule begins with itself, so that rules in their order have all who wait for them before they begin, and each has one
// stack for all of these. A rule at the end of a choice goes on with the stack of that choice: lists do not grow it.
int32_t GrammarMachine::state_of(Items items) {
  bool accepts = false;
  Items leaves;
  std::map<int32_t, std::pair<int32_t, Items>> waiting;  // by the order of the rule
  const auto wait = [&](const Item& item) {
    const int32_t rule = places_[size_t(item.place)].rule;
    auto& [which, who] = waiting[facts_.order[size_t(rule)]];
    which = rule;
    who.push_back(item);
    return bool(facts_.may_be_empty[size_t(rule)]);
  };
  std::set<Item> seen;
  while (!items.empty()) {
    const Item item = items.back();
    items.pop_back();
    if (!seen.insert(item).second) continue;
    check_usage(seen.size() <= kMostItems, "grammar", "the text may be read in more than ", kMostItems,
                " ways at once; make the grammar less ambiguous");
    if (ends(item.place)) {
      if (item.below < 0)
        accepts = true;
      else
        items.insert(items.end(), stacks_[size_t(item.below)].begin(), stacks_[size_t(item.below)].end());
    } else if (places_[size_t(item.place)].bytes >= 0) {
      leaves.push_back(item);
    } else if (wait(item)) {
      items.push_back({item.place + 1, item.below});
    }
  }
  while (!waiting.empty()) {
    auto [rule, who] = std::move(waiting.begin()->second);
    waiting.erase(waiting.begin());
    Items after;
    std::vector<int32_t> below;
    for (const Item& item : who)
      if (ends(item.place + 1))
        below.push_back(item.below);
      else
        after.push_back({item.place + 1, item.below});
    if (!after.empty()) {
      tidy_items(after);
      below.push_back(number(numbers_of_stacks_, after, int32_t(stacks_.size())));
      if (size_t(below.back()) == stacks_.size()) stacks_.push_back(std::move(after));
    }
    tidy_items(below);
    for (const int32_t first : begins_[size_t(rule)])
      for (const int32_t stack : below)
        for (int32_t place = first; !ends(place); ++place) {  // behind what may be empty
          if (places_[size_t(place)].bytes >= 0) {
            leaves.push_back({place, stack});
            break;
          }
          if (!wait({place, stack})) break;
        }
    check_usage(leaves.size() <= kMostItems, "grammar", "more than ", kMostItems,
                " texts may follow at one place; make the grammar smaller");
  }
  tidy_items(leaves);
  work_ += int64_t(seen.size() + leaves.size());
  check_usage(work_ <= kMostWork, "grammar",
              "it takes too long to find out which tokens may follow; make the grammar smaller or less ambiguous");
  if (leaves.empty() && !accepts) return kNowhere;
  Items key = leaves;
  key.push_back({-1, accepts});
  const int32_t found = number(numbers_of_states_, key, int32_t(states_.size()));
  if (size_t(found) == states_.size()) {
    bytes_ += int64_t(sizeof(State));
    states_.push_back({.items = std::move(leaves), .accepts = accepts, .next = {}});
    states_.back().next.fill(kUnknown);
  }
  return found;
}

int32_t GrammarMachine::next(int32_t state, uint8_t byte) {
  if (const int32_t known = states_[size_t(state)].next[byte]; known != kUnknown) return known;
  Items after;
  for (const Item& item : states_[size_t(state)].items)
    if (byte_sets_[size_t(places_[size_t(item.place)].bytes)][byte]) after.push_back({item.place + 1, item.below});
  const int32_t to = after.empty() ? kNowhere : state_of(std::move(after));
  return states_[size_t(state)].next[byte] = to;
}

}  // namespace lithe
