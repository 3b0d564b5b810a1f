// Tokens and their ids.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/text/word_table.h"

namespace lithe {

/// A two-way map between spellings and ids. Ids may have gaps.
class Vocabulary {
 public:
  /// `entries` is how many tokens will be added; ids far beyond it are refused. `origin` stands in errors.
  Vocabulary(size_t entries, std::string origin)
      : limit_(8 * int64_t(entries) + (1 << 16)), origin_(std::move(origin)) {}

  /// Fails when the id is taken by another token, negative or absurdly big, and when the token has another id.
  void add(const std::string& token, int64_t id);
  int64_t size() const { return int64_t(tokens_.size()); }  // one more than the largest id
  std::optional<int32_t> find(std::string_view token) const;
  bool has(int32_t id) const { return id >= 0 && id < size() && present_[size_t(id)]; }
  /// Empty for a gap. Fails outside [0, size()).
  const std::string& token(int32_t id) const;

 private:
  int64_t limit_;
  std::string origin_;
  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  WordTable<int32_t> ids_;
};

}  // namespace lithe
