// What `lithe inspect --words` shows: the hashes of words, in runs without a vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lithe {

struct WordQuestions {
  std::vector<std::string> files;  // texts whose distinct words are looked at
  std::vector<std::string> asked;  // words whose nearest among those are wanted
  int64_t nearest = 5;             // of each
};

/// Prints, for each run, how many words share codes, examples, and the neighbours of each word asked for. Fails, as
/// wrong usage, on a run whose tokenizer is not of type words, and when what is asked for is not one word to it.
int inspect_words(const std::vector<std::string>& runs, const WordQuestions& questions, bool json);

}  // namespace lithe
