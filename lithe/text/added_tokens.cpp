#include "lithe/text/added_tokens.h"

#include "lithe/base/error.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Kind = Utf8Unit::Kind;

/// The last character of `text`, or a unit of another kind.
Utf8Unit last_unit(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(4, text.size()); ++length) {
    const Utf8Unit unit = utf8_unit(text.substr(text.size() - length));
    if (unit.kind == Kind::character) return unit.length == length ? unit : Utf8Unit{Kind::invalid, 0, 1};
  }
  return {Kind::invalid, 0, 1};
}

bool is_word(const Utf8Unit& unit) { return unit.kind == Kind::character && is_word_character(unit.code_point); }
bool is_space(const Utf8Unit& unit) { return unit.kind == Kind::character && is_white_space(unit.code_point); }

}  // namespace

std::vector<AddedToken> special_tokens(const std::vector<std::string>& contents) {
  std::vector<AddedToken> tokens;
  for (const std::string& content : contents) {
    check_usage(content.size() > 1, "tokenizer", "a special token must have at least two characters, got '", content,
                "'");
    for (const AddedToken& other : tokens)
      check_usage(other.content != content, "tokenizer", "special token '", content, "' is given twice");
    tokens.push_back({.id = int32_t(tokens.size()), .content = content, .special = true});
  }
  return tokens;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), trie_(1) {
  for (size_t t = 0; t < tokens_.size(); ++t) {
    uint32_t node = 0;
    for (const char c : tokens_[t].content) {
      const auto [entry, is_new] = trie_[node].next.try_emplace(c, uint32_t(trie_.size()));
      node = entry->second;
      if (is_new) trie_.emplace_back();
    }
    trie_[node].token = int32_t(t);
    first_byte_[static_cast<unsigned char>(tokens_[t].content[0])] = true;
    any_plain_ = any_plain_ || !tokens_[t].special;
  }
}

void AddedTokens::cut(std::string_view text, bool with_specials, const std::function<void(std::string_view)>& on_text,
                      const std::function<void(const AddedToken&)>& on_token) const {
  size_t done = 0;
  if (any_plain_ || (with_specials && !empty())) {
    for (size_t at = 0; at < text.size();) {
      if (!first_byte_[static_cast<unsigned char>(text[at])]) {
        ++at;
        continue;
      }
      const AddedToken* found = nullptr;
      uint32_t node = 0;
      for (size_t i = at; i < text.size(); ++i) {
        const auto entry = trie_[node].next.find(text[i]);
        if (entry == trie_[node].next.end()) break;
        node = entry->second;
        if (const int32_t t = trie_[node].token; t >= 0 && (with_specials || !tokens_[t].special)) found = &tokens_[t];
      }
      size_t begin = at, end = at + (found ? found->content.size() : 0);
      if (found && found->single_word &&
          ((begin > 0 && is_word(last_unit(text.substr(0, begin)))) ||
           (end < text.size() && is_word(utf8_unit(text.substr(end))))))
        found = nullptr;
      if (!found) {
        ++at;
        continue;
      }
      if (found->lstrip)
        while (begin > done && is_space(last_unit(text.substr(done, begin - done))))
          begin -= last_unit(text.substr(0, begin)).length;
      if (found->rstrip)
        while (end < text.size() && is_space(utf8_unit(text.substr(end)))) end += utf8_unit(text.substr(end)).length;
      if (begin > done) on_text(text.substr(done, begin - done));
      on_token(*found);
      done = end;
      at += found->content
                .size();  // not `end`: tokens of white space are found in what was stripped, as Hugging Face does
    }
  }
  if (done < text.size()) on_text(text.substr(done));
}

}  // namespace lithe
