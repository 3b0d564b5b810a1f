// Training a WordPiece as BERT's: merges of characters by frequency, pieces that continue a word spelt "##".
#include <algorithm>
#include <map>
#include <set>

#include "lithe/base/error.h"
#include "lithe/text/merge_learner.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/tokenizer_json.h"
#include "lithe/text/training_words.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr std::string_view prefix = "##";
constexpr size_t most_characters = 1000;  // Hugging Face's limit_alphabet
constexpr size_t longest_word = 100;      // in characters; longer ones are [UNK] when text is encoded

using Word = std::vector<uint32_t>;  // code points

/// Characters of `word`; empty when it takes no part in training.
Word characters_of(std::string_view word) {
  Word characters;
  if (is_valid_utf8(word)) for_each_character(word, [&](uint32_t c) { characters.push_back(c); });
  if (characters.size() > longest_word) characters.clear();
  return characters;
}

std::string spelling(uint32_t character, bool continues) {
  std::string out(continues ? prefix : "");
  append_utf8(out, character);
  return out;
}

/// The `size` most frequent characters, of equals the smaller first; in the order of their numbers.
std::vector<uint32_t> alphabet_of(const WordTable<int64_t>& words, size_t size) {
  std::map<uint32_t, int64_t> counts;
  for (size_t w = 0; w < words.size(); ++w)
    for (const uint32_t c : characters_of(words.word(w))) counts[c] += words.value(w);
  std::vector<std::pair<uint32_t, int64_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  order.resize(std::min(order.size(), size));
  std::vector<uint32_t> alphabet;
  for (const auto& [character, count] : order) alphabet.push_back(character);
  std::sort(alphabet.begin(), alphabet.end());
  return alphabet;
}

}  // namespace

struct WordPieceTrainer::State : TrainingWords {
  WordPieceTraining options;
};

WordPieceTrainer::WordPieceTrainer(WordPieceTraining options) : state_(std::make_unique<State>()) {
  const int64_t least = 2 + int64_t(options.specials.size());
  check_usage(options.vocab_size >= least && options.vocab_size < int64_t(1) << 24, "tokenizer",
              "vocab_size must be at least ", least, " (", options.specials.size(),
              " special tokens and a character) and below ", 1 << 24, ", got ", options.vocab_size);
  check_usage(options.min_frequency >= 1, "tokenizer", "min_frequency must be at least 1, got ", options.min_frequency);
  const auto& names = options.specials;
  check_usage(std::find(names.begin(), names.end(), "[UNK]") != names.end(), "tokenizer",
              "specials of a WordPiece must hold [UNK], for words that no pieces make up");
  state_->specials = AddedTokens(special_tokens(names));
  state_->normalizer.add(bert_normalization({}));
  state_->pretokenizer.add_bert();
  state_->options = std::move(options);
}
WordPieceTrainer::~WordPieceTrainer() = default;
WordPieceTrainer::WordPieceTrainer(WordPieceTrainer&&) noexcept = default;
WordPieceTrainer& WordPieceTrainer::operator=(WordPieceTrainer&&) noexcept = default;

void WordPieceTrainer::add(std::string_view text) { state_->add(text); }

std::unique_ptr<Tokenizer> WordPieceTrainer::train() {
  const WordTable<int64_t>& words = state_->words.total();
  const WordPieceTraining& options = state_->options;
  const size_t room = size_t(options.vocab_size) - options.specials.size();
  const auto alphabet = alphabet_of(words, std::min(most_characters, room / 2));

  std::set<uint32_t> within;  // characters that continue some word; punctuation never does
  for (size_t w = 0; w < words.size(); ++w) {
    const Word word = characters_of(words.word(w));
    if (!word.empty()) within.insert(word.begin() + 1, word.end());
  }

  // Ids of the learner: the alphabet at the start of a word, then within one.
  std::vector<std::string> symbols;
  std::map<std::pair<uint32_t, bool>, int32_t> ids;
  for (const bool continues : {false, true})
    for (const uint32_t c : alphabet) {
      if (continues && !within.contains(c)) continue;
      ids[{c, continues}] = int32_t(symbols.size());
      symbols.push_back(spelling(c, continues));
    }
  const size_t singles = symbols.size();
  MergeLearner learner(std::move(symbols), prefix.size());
  std::vector<int32_t> word;
  for (size_t w = 0; w < words.size(); ++w) {
    word.clear();
    for (const uint32_t c : characters_of(words.word(w))) {
      const auto id = ids.find({c, !word.empty()});
      word.push_back(id == ids.end() ? -1 : id->second);
    }
    // A word with a rare character is [UNK] whatever is learned from the rest of it.
    if (std::find(word.begin(), word.end(), -1) == word.end()) learner.add(word, words.value(w));
  }
  learner.learn(int64_t(room - singles), options.min_frequency);

  std::vector<std::string> vocabulary = options.specials;
  vocabulary.insert(vocabulary.end(), learner.tokens().begin(), learner.tokens().end());
  return parse_tokenizer(bert_json(vocabulary, options.specials), "trained tokenizer");
}

}  // namespace lithe
