// SentencePiece's compiled rules of normalization, as a tokenizer.json holds them (step Precompiled).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// A double-array trie from strings to what replaces them.
class Charsmap {
 public:
  /// `blob`: the size of the trie in bytes, the trie, the replacements, each ended by a zero byte. Fails on anything
  /// else, naming `place`.
  Charsmap(std::string_view blob, const std::string& place);

  /// Normalizes valid UTF-8. Hugging Face's reading, which models loaded through it were trained with: characters that
  /// are seen as one (grapheme clusters) of fewer than six bytes are looked up whole, others one by one, and the
  /// shortest rule that starts them counts.
  std::string operator()(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;

  std::optional<std::string_view> find(std::string_view characters) const;
};

}  // namespace lithe
