// Which tokens a memory of n-grams takes for the same.
#pragma once

#include "lithe/model/config.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// What each token counts as: equal where their texts are, after NFKC, without accents, in lower case and with single
/// blanks; numbered by their first. Tokens that are no text by themselves are as they are spelt.
std::vector<int64_t> folded_ids(const Tokenizer& tokenizer);

/// Gives mixers engram with fold: text and no folded_ids those of the tokenizer.
void set_folded_ids(ModelConfig& model, const Tokenizer& tokenizer);

}  // namespace lithe
