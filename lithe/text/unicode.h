// Character classes of Unicode that tokenizers use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lithe {

/// Version of the character data: "15.0.0".
std::string unicode_version();

bool is_white_space(uint32_t code_point);      // property White_Space
bool is_word_character(uint32_t code_point);   // letters, marks, decimal digits, connector punctuation
bool is_alphanumeric(uint32_t code_point);     // categories L and N
bool is_number(uint32_t code_point);           // category N
bool is_punctuation(uint32_t code_point);      // category P
bool is_symbol(uint32_t code_point);           // category S
bool is_nonspacing_mark(uint32_t code_point);  // category Mn
bool is_control(uint32_t code_point);          // categories Cc, Cf, Co, Cs

/// Appends the lower case of a character, as the Unicode data has it without context.
void append_lower_case(std::string& out, uint32_t code_point);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// Normal form of valid UTF-8.
std::string normal_form(std::string_view text, NormalForm form);

}  // namespace lithe
