// The special tokens around one text, or around the two of a pair.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lithe/text/tokenizer.h"
#include "lithe/text/truncation.h"

namespace lithe {

/// A text or a pair with its special tokens. All positions and counts are in tokens, of tokenizer.width() ints each.
struct FramedText {
  std::vector<int32_t> tokens;
  int64_t a_begin = 0, a_tokens = 0;  // where the first text stands, and how much of it was kept
  int64_t b_begin = 0, b_tokens = 0;  // the second; 0 and 0 without one
};

/// Frames tokens that encode() gave, as the tokenizer's models were trained.
///
/// [CLS] A [SEP] and [CLS] A [SEP] B [SEP] with the roles cls and sep (BERT).
///
/// <s> A </s> and <s> A </s> </s> B </s> where sep is spelt </s> (RoBERTa), and for tokens without a vocabulary.
///
/// bos A eos and bos A eos B eos otherwise; a role that is absent is left out.
///
/// What does not fit into `max_tokens`, specials included, is cut, from the longer text first and of equals from the
/// second; which of its tokens stay `truncation` says. Fails when max_tokens is below frame_specials(), when a span is
/// not a multiple of width() ints, when `b` is given without `pair`, and for a pair when nothing can separate it.
FramedText frame(const Tokenizer& tokenizer, std::span<const int32_t> a, std::span<const int32_t> b, bool pair,
                 int64_t max_tokens, const Truncation& truncation = {});

/// Special tokens that frame() adds.
int64_t frame_specials(const Tokenizer& tokenizer, bool pair);

}  // namespace lithe
