#include <cstdio>

#include "lithe/base/error.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/utf8.h"
#include "lithe/text/word_model.h"

namespace lithe {
namespace {

constexpr int32_t no_id = -1;

class BpeModel final : public WordModel {
 public:
  BpeModel(const Vocabulary& vocabulary, const std::vector<Merge>& merges, const BpeOptions& options)
      : vocabulary_(vocabulary), merges_(merges, options.ranks), options_(options) {
    for (int b = 0; b < 256; ++b) {
      char fallback[8];
      std::snprintf(fallback, sizeof fallback, "<0x%02X>", b);
      const std::string spelling = options.byte_level ? spell_bytes(std::string(1, char(b))) : fallback;
      bytes_[size_t(b)] = vocabulary.find(spelling).value_or(no_id);
      all_bytes_ = all_bytes_ && bytes_[size_t(b)] != no_id;
    }
  }

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    if (options_.ignore_merges)
      if (const auto id = vocabulary_.find(options_.byte_level ? spell_bytes(word) : word)) {
        ids.push_back(*id);
        return;
      }
    std::vector<int32_t>& symbols = symbols_of(word);
    merges_.apply(symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

  void sample(std::string_view word, MergeDropout& dropout, std::vector<int32_t>& ids) const override {
    std::vector<int32_t>& symbols = symbols_of(word);
    merges_.apply(symbols, dropout);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

 private:
  const Vocabulary& vocabulary_;
  BpeMerges merges_;
  BpeOptions options_;
  std::array<int32_t, 256> bytes_;
  bool all_bytes_ = true;

  /// What a symbol is in the vocabulary, which stands first or last in its word.
  std::string affixed(std::string_view symbol, bool first, bool last) const {
    return cat(first ? std::string() : options_.continuing_prefix, symbol, last ? options_.end_suffix : std::string());
  }
  bool affixes() const { return !options_.continuing_prefix.empty() || !options_.end_suffix.empty(); }

  /// What the word is before any merge; valid until the thread's next call.
  std::vector<int32_t>& symbols_of(std::string_view word) const {
    thread_local std::vector<int32_t> symbols;
    symbols.clear();
    if (options_.byte_level)
      byte_symbols(word, symbols);
    else
      character_symbols(word, symbols);
    return symbols;
  }

  void unknown(std::vector<int32_t>& symbols, bool& after_unknown) const {
    if (options_.unk && !(options_.fuse_unk && after_unknown)) symbols.push_back(*options_.unk);
    after_unknown = true;
  }

  void byte_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
    if (affixes()) {
      bool after_unknown = false;
      for (size_t i = 0; i < word.size(); ++i) {
        const auto id = vocabulary_.find(affixed(spell_bytes(word.substr(i, 1)), i == 0, i + 1 == word.size()));
        if (id)
          symbols.push_back(*id), after_unknown = false;
        else
          unknown(symbols, after_unknown);
      }
      return;
    }
    if (all_bytes_) {
      for (const char c : word) symbols.push_back(bytes_[uint8_t(c)]);
      return;
    }
    bool after_unknown = false;
    for (const char c : word) {
      if (bytes_[uint8_t(c)] == no_id) {
        unknown(symbols, after_unknown);
      } else {
        symbols.push_back(bytes_[uint8_t(c)]);
        after_unknown = false;
      }
    }
  }

  void character_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
    bool after_unknown = false;
    for (bool first = true; !word.empty(); first = false) {
      const std::string_view character = word.substr(0, utf8_unit(word).length);
      word.remove_prefix(character.size());
      bool fallback = options_.byte_fallback;
      for (const char c : character) fallback = fallback && bytes_[uint8_t(c)] != no_id;
      const auto id =
          affixes() ? vocabulary_.find(affixed(character, first, word.empty())) : vocabulary_.find(character);
      if (id) {
        symbols.push_back(*id);
        after_unknown = false;
      } else if (fallback) {
        for (const char c : character) symbols.push_back(bytes_[uint8_t(c)]);
        after_unknown = false;
      } else {
        unknown(symbols, after_unknown);
      }
    }
  }
};

}  // namespace

void WordModel::sample(std::string_view, MergeDropout&, std::vector<int32_t>&) const {
  fail_usage("tokenizer", "dropout passes over merges, which only a BPE has: take type bpe, or leave dropout out");
}

std::unique_ptr<WordModel> make_bpe_model(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                                          const BpeOptions& options) {
  return std::make_unique<BpeModel>(vocabulary, merges, options);
}

}  // namespace lithe
