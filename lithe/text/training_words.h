// The words of the texts that a tokenizer learns from: the common ground of the trainers.
#pragma once

#include "lithe/text/added_tokens.h"
#include "lithe/text/normalizer.h"
#include "lithe/text/pretokenizer.h"
#include "lithe/text/word_counter.h"

namespace lithe {

struct TrainingWords {
  AddedTokens specials;   // their strings cut the texts and are not counted
  Normalizer normalizer;  // without steps: texts are taken as they are
  PreTokenizer pretokenizer;
  WordCounter words;
  uint64_t bytes = 0;  // of all texts

  /// Counts the words of one text.
  void add(std::string_view text) {
    bytes += text.size();
    const auto count = [this](auto pieces) { words.add(pieces); };
    specials.cut(
        text, true,
        [&](std::string_view part) {
          if (normalizer.empty())
            pretokenizer.pieces(part, count);
          else
            pretokenizer.pieces(normalizer(part), count);
        },
        [](const AddedToken&) {});
  }
};

}  // namespace lithe
