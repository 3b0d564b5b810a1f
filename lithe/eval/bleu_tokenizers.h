// How BLEU cuts a text into words: the tokenizers of sacreBLEU (Post 2018, arXiv:1804.08771).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// Cuts one segment into words.
using BleuTokenizer = std::vector<std::string> (*)(std::string_view text);

/// 13a: mteval-v13a of WMT. Four entities become characters, ASCII punctuation stands alone; points and commas do
/// unless between digits, hyphens only after digits.
///
/// intl: mteval-v14. Unicode punctuation stands alone unless between numbers, and every symbol does.
///
/// char: each character but white space is a word.
///
/// none: white space alone cuts.
///
/// Fails on another name.
BleuTokenizer bleu_tokenizer(const std::string& name);
const std::vector<std::string>& bleu_tokenizer_names();

}  // namespace lithe
