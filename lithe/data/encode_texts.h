// Many texts to tokens at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "lithe/text/tokenizer.h"

namespace lithe {

/// The tokens of text_of(0) to text_of(count - 1), found by all threads; text_of must be safe to call from many.
std::vector<std::vector<int32_t>> encode_texts(const Tokenizer& tokenizer, int64_t count,
                                               const std::function<std::string_view(int64_t)>& text_of);

}  // namespace lithe
