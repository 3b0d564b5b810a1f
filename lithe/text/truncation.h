// Which tokens of a text that is too long are read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lithe/base/fields.h"

namespace lithe {

// spec: seqc.truncate | data | texts are cut to a cap: their first tokens, their last, or head and tail stay | TB 6.4.8
/// Section `data.truncation` of a recipe.
struct Truncation {
  std::string keep = "first";
  int64_t head_tokens = 0;

  void fields(Fields& f);
  /// Of a text of `tokens` tokens with `room` for fewer: how many of its first ones stay; the others are its last.
  /// What fits stays whole.
  int64_t head(int64_t tokens, int64_t room) const;
  /// Where token `token` of such a text stands among those that stay; -1: it does not.
  int64_t place(int64_t token, int64_t tokens, int64_t room) const;
  /// The tokens that stay, in order; `width` ints a token.
  std::vector<int32_t> cut(std::span<const int32_t> text, int64_t room, int64_t width = 1) const;
};

}  // namespace lithe
