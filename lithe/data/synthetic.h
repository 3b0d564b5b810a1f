// Sequences that ask for what stood far before: recall, copying, induction. Examples of a task of type tagging in which
// only the words that ask have a label.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lithe/base/files.h"

namespace lithe {

struct SyntheticConfig {
  std::string task = "recall";  // of synthetic_tasks()
  int64_t length = 512;         // words of a sequence
  int64_t items = 16;           // recall: pairs; copy, selective_copy: symbols to copy
  int64_t symbols = 64;         // different values and symbols
  int64_t keys = 0;             // recall: different keys; 0: 4 items
  int64_t train = 10000, test = 500;
  int64_t seed = 1;
};

/// recall: `items` pairs of a key and a value, all keys different, then each key once more, anywhere in what is left
/// among blanks: its label is its value (multi-query associative recall, Arora et al. 2023).
///
/// copy: `items` symbols, blanks, then as many marks, whose labels are the symbols in their order (Hochreiter &
/// Schmidhuber 1997, Arjovsky et al. 2016).
///
/// selective_copy: the same, the symbols standing anywhere among the blanks (Gu & Dao 2023).
///
/// induction: symbols, among them somewhere a mark with the symbol after it; the last word is the mark, whose label is
/// that symbol (Olsson et al. 2022).
const std::vector<std::string>& synthetic_tasks();

struct SyntheticExample {
  std::vector<std::string> words;
  std::vector<std::string> labels;  // of each word; empty: it has none
};

/// Example `index` of a config: a pure function of both. Fails (usage) on sizes that do not fit.
SyntheticExample synthetic_example(const SyntheticConfig& config, int64_t index);
/// Every word that examples may have.
std::vector<std::string> synthetic_words(const SyntheticConfig& config);

/// Writes train.jsonl and test.jsonl, which share no example's draws, and vocab.txt, a tokenizer of a token a word,
/// into a new directory. Fails (usage) when it exists and is not empty, but for such files where `overwrite` is on.
void write_synthetic(const SyntheticConfig& config, const Path& directory, bool overwrite = false);

}  // namespace lithe
