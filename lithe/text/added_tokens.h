// Added tokens: strings that become one id before anything else looks at the text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// An entry of added_tokens in a tokenizer.json.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;      // a control token
  bool single_word = false;  // only between characters that are no word characters
  bool lstrip = false;       // takes the white space on its left
  bool rstrip = false;       // and on its right
  bool normalized = false;   // looked for in normalized text
};

/// Special tokens with ids 0, 1, ... Fails, as wrong usage, on one of less than two bytes or given twice.
std::vector<AddedToken> special_tokens(const std::vector<std::string>& contents);

/// Finds a set of strings: the leftmost, of these the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

  /// Cuts `text` into added tokens and what stands between them (never empty), in order. Special tokens are only
  /// found when `with_specials`.
  void cut(std::string_view text, bool with_specials, const std::function<void(std::string_view)>& on_text,
           const std::function<void(const AddedToken&)>& on_token) const;

 private:
  struct Node {
    std::map<char, uint32_t> next;
    int32_t token = -1;  // that ends here
  };
  std::vector<AddedToken> tokens_;
  std::vector<Node> trie_;
  bool first_byte_[256] = {};
  bool any_plain_ = false;  // some token is not special
};

}  // namespace lithe
