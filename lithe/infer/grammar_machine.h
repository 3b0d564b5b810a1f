// Which texts a grammar lets through, byte by byte: a pushdown automaton whose sets of stacks are shared and numbered.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>

#include "lithe/infer/grammar.h"

namespace lithe {

/// A state stands for all ways in which the grammar may have read a text. Two texts after which the same may follow
/// mostly have the same one, and what is found out of a state is kept. One thread at a time.
class GrammarMachine {
 public:
  explicit GrammarMachine(Grammar grammar);

  static constexpr int32_t kNowhere = -1;
  int32_t start();
  /// kNowhere: no text of the grammar goes on so. Fails (usage) where a grammar has too many readings at once.
  int32_t next(int32_t state, uint8_t byte);
  /// The text is one of the grammar.
  bool accepts(int32_t state) const { return states_[size_t(state)].accepts; }
  /// Some byte may follow.
  bool goes_on(int32_t state) const { return !states_[size_t(state)].items.empty(); }

  /// A new token is due: what is found out from now on counts towards a limit, beyond which next() fails (usage).
  void begin_work() { work_ = 0; }
  /// Bytes of all that is kept. Forgetting it makes the numbers of states void.
  int64_t bytes() const { return bytes_; }
  void forget();

 private:
  // A place in a choice of a rule, and the stack below: what follows when the rule is read. -1: nothing.
  struct Item {
    int32_t place, below;
    auto operator<=>(const Item&) const = default;
  };
  using Items = std::vector<Item>;
  struct Hash {
    size_t operator()(const Items& items) const;
  };
  struct State {
    Items items;  // all before bytes
    bool accepts = false;
    std::array<int32_t, 256> next;
  };
  // Places of all choices, one after another; behind each choice stands a place with neither bytes nor a rule.
  std::vector<Grammar::Symbol> places_;
  std::vector<std::vector<int32_t>> begins_;  // of each rule: the first places of its choices
  std::vector<Grammar::Bytes> byte_sets_;
  GrammarFacts facts_;
  int32_t begin_ = 0;  // a place before the root

  std::vector<State> states_;
  std::vector<Items> stacks_;  // each: the places that it goes on at, with what is below
  std::unordered_map<Items, int32_t, Hash> numbers_of_states_, numbers_of_stacks_;
  int64_t bytes_ = 0, work_ = 0;

  bool ends(int32_t place) const { return places_[size_t(place)].rule < 0 && places_[size_t(place)].bytes < 0; }
  int32_t state_of(Items items);
  int32_t number(std::unordered_map<Items, int32_t, Hash>& numbers, const Items& items, int32_t next);
};

}  // namespace lithe
