// Learning merges. Every distinct word is laid out once in one array of symbols with links to its neighbours; each pair
// knows its count and where it stands, so a merge costs as much as it has occurrences.
#include <algorithm>
#include <bit>
#include <queue>

#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/text/added_tokens.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/pretokenizer.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/tokenizer_json.h"
#include "lithe/text/tokenizer_roles.h"
#include "lithe/text/word_table.h"

namespace lithe {
namespace {

using Counts = WordTable<int64_t>;
constexpr uint32_t none = ~uint32_t(0);

/// Learns merges from the counts of words (byte strings). Token ids here: 0 to 255 the bytes, then new tokens.
class Learner {
 public:
  Learner(const Counts& words) {
    size_t symbols = 0;
    for (size_t w = 0; w < words.size(); ++w) symbols += words.word(w).size();
    check(symbols < none, "tokenizer", "the distinct words have ", symbols, " bytes, above the limit of ", none - 1,
          " for training: give fewer texts");
    symbol_.reserve(symbols), previous_.reserve(symbols), next_.reserve(symbols), word_.reserve(symbols);
    for (int b = 0; b < 256; ++b) tokens_.push_back(std::string(1, char(b)));
    for (size_t w = 0; w < words.size(); ++w) {
      const std::string_view word = words.word(w);
      count_.push_back(words.value(w));
      for (size_t i = 0; i < word.size(); ++i) {
        const uint32_t at = uint32_t(symbol_.size());
        symbol_.push_back(uint8_t(word[i]));
        word_.push_back(uint32_t(w));
        previous_.push_back(i == 0 ? none : at - 1);
        next_.push_back(i + 1 == word.size() ? none : at + 1);
      }
    }
    for (uint32_t at = 0; at < symbol_.size(); ++at)
      if (next_[at] != none) change(at, count_[word_[at]]);
    queue_touched();
  }

  /// Learns until there are `tokens` new tokens or no pair occurs `min_frequency` times.
  void learn(int64_t tokens, int64_t min_frequency) {
    while (int64_t(tokens_.size()) - 256 < tokens && !queue_.empty()) {
      check(stop_signal() == 0, "tokenizer", "training was stopped by signal ", stop_signal());
      std::pop_heap(queue_.begin(), queue_.end(), Order{*this});
      const auto [count, p] = queue_.back();
      queue_.pop_back();
      if (count !=
          pairs_[p].count) {  // merges elsewhere took some of its occurrences: back into the queue with what is left
        if (pairs_[p].count >= min_frequency) push(p);
        continue;
      }
      if (count < std::max<int64_t>(min_frequency, 1)) break;
      touched_.clear();
      merge(p);
      queue_touched();
    }
  }

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<std::pair<int32_t, int32_t>>& merges() const { return merges_; }

 private:
  struct Pair {
    int32_t left, right;
    int64_t count = 0;
    std::vector<uint32_t> at;  // positions of the left symbol, some of them stale
  };
  using Entry = std::pair<int64_t, uint32_t>;  // count, pair
  struct Order {
    const Learner& learner;
    bool operator()(const Entry& a, const Entry& b) const { return learner.before(b, a); }
  };

  std::vector<int32_t> symbol_;  // -1: merged into the one before
  std::vector<uint32_t> previous_, next_, word_;
  std::vector<int64_t> count_;  // of words
  std::vector<Pair> pairs_;
  std::vector<uint32_t> table_ = std::vector<uint32_t>(1 << 12);  // open addressing: 1 + pair, 0: free
  std::vector<Entry> queue_;
  std::vector<uint32_t> touched_;  // pairs whose count rose during a merge
  std::vector<std::string> tokens_;
  std::vector<std::pair<int32_t, int32_t>> merges_;

  /// Of two pairs as frequent, the one whose bytes are lexicographically greater comes first.
  bool before(const Entry& a, const Entry& b) const {
    if (a.first != b.first) return a.first > b.first;
    const Pair &x = pairs_[a.second], &y = pairs_[b.second];
    if (const int order = tokens_[size_t(x.left)].compare(tokens_[size_t(y.left)])) return order > 0;
    return tokens_[size_t(x.right)] > tokens_[size_t(y.right)];
  }
  void push(uint32_t pair) {
    queue_.push_back({pairs_[pair].count, pair});
    std::push_heap(queue_.begin(), queue_.end(), Order{*this});
  }

  static uint64_t hash(int32_t left, int32_t right) {
    const uint64_t key = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
    return (key ^ key >> 29) * 0x9E3779B97F4A7C15ull;
  }
  size_t slot_of(int32_t left, int32_t right) const {
    size_t slot = hash(left, right) >> (64 - std::countr_zero(table_.size()));
    while (table_[slot] && (pairs_[table_[slot] - 1].left != left || pairs_[table_[slot] - 1].right != right))
      slot = (slot + 1) & (table_.size() - 1);
    return slot;
  }
  uint32_t pair_of(int32_t left, int32_t right) {
    if (table_.size() < 2 * (pairs_.size() + 1)) {
      table_.assign(2 * table_.size(), 0);
      for (uint32_t p = 0; p < pairs_.size(); ++p) table_[slot_of(pairs_[p].left, pairs_[p].right)] = p + 1;
    }
    uint32_t& slot = table_[slot_of(left, right)];
    if (slot == 0) {
      pairs_.push_back({.left = left, .right = right});
      slot = uint32_t(pairs_.size());
    }
    return slot - 1;
  }
  /// The pair that starts at `at` comes (by > 0) or goes.
  void change(uint32_t at, int64_t by) {
    const uint32_t p = pair_of(symbol_[at], symbol_[next_[at]]);
    pairs_[p].count += by;
    if (by > 0) {
      pairs_[p].at.push_back(at);
      touched_.push_back(p);
    }
  }

  void queue_touched() {
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const uint32_t p : touched_)
      if (pairs_[p].count > 0) push(p);
  }

  void merge(uint32_t p) {
    const int32_t left = pairs_[p].left, right = pairs_[p].right;
    // A new token each time: text of one spelling always merges alike, so no two merges spell the same.
    const int32_t result = int32_t(tokens_.size());
    tokens_.push_back(tokens_[size_t(left)] + tokens_[size_t(right)]);
    merges_.push_back({left, right});

    std::vector<uint32_t> positions = std::move(pairs_[p].at);
    pairs_[p].at.clear();
    std::sort(positions.begin(), positions.end());  // left to right within a word: "aaa" is "aa" "a"
    for (const uint32_t at : positions) {
      const uint32_t second = next_[at];
      if (symbol_[at] != left || second == none || symbol_[second] != right) continue;
      const int64_t count = count_[word_[at]];
      const uint32_t before = previous_[at], after = next_[second];
      if (before != none) change(before, -count);
      change(at, -count);
      if (after != none) change(second, -count);
      symbol_[at] = result;
      symbol_[second] = -1;
      next_[at] = after;
      next_[second] = none;
      if (after != none) previous_[after] = at;
      if (before != none) change(before, count);
      if (after != none) change(at, count);
    }
  }
};

}  // namespace

struct BpeTrainer::State {
  BpeTraining options;
  AddedTokens specials;
  PreTokenizer pretokenizer;
  std::vector<Counts> counts;  // one table a thread
  uint64_t bytes = 0;

  void count(std::span<const PreTokenizer::Piece> pieces) {
    if (counts.size() < size_t(threads())) counts.resize(size_t(threads()));
    parallel_for(int64_t(pieces.size()), 4096, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) ++counts[size_t(thread)].insert(pieces[size_t(i)]);
    });
  }
};

BpeTrainer::BpeTrainer(BpeTraining options) : state_(std::make_unique<State>()) {
  const int64_t least = 256 + int64_t(options.specials.size());
  check_usage(options.vocab_size >= least, "tokenizer", "vocab_size must be at least ", least, " (256 bytes and ",
              options.specials.size(), " special tokens), got ", options.vocab_size);
  check_usage(options.vocab_size < int64_t(1) << 24, "tokenizer", "vocab_size must be below ", 1 << 24, ", got ",
              options.vocab_size);
  check_usage(options.min_frequency >= 1, "tokenizer", "min_frequency must be at least 1, got ", options.min_frequency);
  std::vector<AddedToken> specials;
  for (const std::string& content : options.specials) {
    check_usage(content.size() > 1, "tokenizer", "a special token must have at least two characters, got '", content,
                "'");
    for (const AddedToken& other : specials)
      check_usage(other.content != content, "tokenizer", "special token '", content, "' is given twice");
    specials.push_back({.id = int32_t(specials.size()), .content = content, .special = true});
  }
  state_->specials = AddedTokens(std::move(specials));
  state_->pretokenizer.add_split(Pattern(gpt2_pattern, "training"));
  state_->options = std::move(options);
}
BpeTrainer::~BpeTrainer() = default;
BpeTrainer::BpeTrainer(BpeTrainer&&) noexcept = default;
BpeTrainer& BpeTrainer::operator=(BpeTrainer&&) noexcept = default;

uint64_t BpeTrainer::bytes() const { return state_->bytes; }

void BpeTrainer::add(std::string_view text) {
  state_->bytes += text.size();
  state_->specials.cut(
      text, true,
      [&](std::string_view part) { state_->pretokenizer.pieces(part, [&](auto pieces) { state_->count(pieces); }); },
      [](const AddedToken&) {});
}

// spec: tok.bpe | tokenizer | byte-level BPE by frequency; of equals the lexicographically greatest pair | TB 6.4.8
std::unique_ptr<Tokenizer> BpeTrainer::train() {
  if (state_->counts.empty()) state_->counts.resize(1);
  Counts& words = state_->counts[0];
  for (size_t t = 1; t < state_->counts.size(); ++t) {
    const Counts& more = state_->counts[t];
    for (size_t w = 0; w < more.size(); ++w) words.insert(more.word(w)) += more.value(w);
    state_->counts[t] = Counts();
  }
  const BpeTraining& options = state_->options;
  const int64_t wanted = options.vocab_size - 256 - int64_t(options.specials.size());
  Learner learner(words);
  learner.learn(wanted, options.min_frequency);

  BpeDescription description;
  description.added = state_->specials.tokens();
  for (const std::string& special : options.specials) description.vocabulary.push_back(special);
  for (int i = 0; i < 256; ++i)
    description.vocabulary.push_back(spell_bytes(learner.tokens()[byte_in_spelling_order(i)]));
  for (size_t t = 256; t < learner.tokens().size(); ++t)
    description.vocabulary.push_back(spell_bytes(learner.tokens()[t]));
  for (const auto& [left, right] : learner.merges())
    description.merges.push_back(
        {spell_bytes(learner.tokens()[size_t(left)]), spell_bytes(learner.tokens()[size_t(right)])});
  if (int64_t(description.vocabulary.size()) < options.vocab_size)
    log_warning("tokenizer: the texts (", bytes(), " bytes) give ", description.vocabulary.size(),
                " entries, fewer than vocab_size ", options.vocab_size, ": no other pair occurs ",
                options.min_frequency, " times");
  Roles roles;
  roles.bos = roles.eos = {.stated = true,
                           .token = options.specials.empty() ? std::nullopt : std::optional(options.specials[0])};
  return parse_tokenizer(byte_level_bpe_json(description), "trained tokenizer", roles);
}

std::unique_ptr<Tokenizer> train_bpe(std::span<const std::string_view> texts, const BpeTraining& options) {
  BpeTrainer trainer(options);
  for (const std::string_view text : texts) trainer.add(text);
  return trainer.train();
}

}  // namespace lithe
