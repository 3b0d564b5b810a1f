// SentencePiece's compiled rules of normalization, as its .model files and a tokenizer.json (step Precompiled) hold
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// A double array (Aoe 1989, as darts-clone stores it) from strings to what replaces them.
class Charsmap {
 public:
  /// `blob`: the size of the array in bytes, the array, the replacements, each ended by a zero byte. Every step that
  /// any text can take must stay inside, or else this fails naming `place`.
  Charsmap(std::string_view blob, const std::string& place);

  /// Normalizes valid UTF-8. Hugging Face's reading, which models loaded through it were trained with: characters that
  /// are seen as one (grapheme clusters) of fewer than six bytes are looked up whole, others one by one, and the
  /// shortest rule that starts them counts.
  std::string operator()(std::string_view text) const;

  struct Rule {
    size_t length;  // bytes of the text that it replaces
    std::string_view replacement;
  };
  /// SentencePiece's own reading: the longest rule that starts `text`.
  std::optional<Rule> longest(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;

  template <class F>
  void rules(std::string_view text, F&& f) const;
  std::optional<std::string_view> shortest(std::string_view text) const;
};

}  // namespace lithe
