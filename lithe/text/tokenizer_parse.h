// Sections of a tokenizer.json, each to a part of a tokenizer. What is not supported is refused by name.
#pragma once

#include "lithe/text/json_section.h"
#include "lithe/text/pipeline_tokenizer.h"

namespace lithe {

[[noreturn]] inline void unsupported(const std::string& place, const std::string& what) {
  fail("tokenizer", place, ": '", what, "' is not supported");
}

/// Calls f for the section itself, or for each of those in its list when it is a Sequence.
template <class F>
void for_each_step(const JsonSection& section, const char* list, F&& f) {
  constexpr size_t most_steps = 64;
  if (section.is_null()) return;
  if (section.type() != "Sequence") return f(section);
  const JsonSection::Tree& steps = section.list(list);
  check(steps.size() <= most_steps, "tokenizer", section.place(list), " has ", steps.size(),
        " steps, above the limit of ", most_steps);
  for (size_t i = 0; i < steps.size(); ++i)
    for_each_step(JsonSection(steps[i], cat(section.place(list), "[", i, "]")), list, f);
}

/// The section `pattern` of a step.
Pattern pattern_of(const JsonSection& step);
/// `text` with `content` for what matches.
std::string replaced(std::string_view text, const Pattern& pattern, const std::string& content);

/// Sections normalizer and pre_tokenizer into `parts`; true when text goes on as bytes in the spelling of
/// byte_alphabet.h.
bool read_text_steps(const JsonSection& root, TokenizerParts& parts);
/// Section model into the vocabulary, the model and the id of unk; its type. `entries`: tokens of the file.
std::string read_model(const JsonSection& root, bool byte_level, size_t entries, TokenizerParts& parts);
/// Section decoder.
Decoding read_decoder(const JsonSection& decoder, bool byte_level, bool word_piece);

}  // namespace lithe
