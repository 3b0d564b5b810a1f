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
bool is_mark(uint32_t code_point);             // category M
bool is_control(uint32_t code_point);          // categories Cc, Cf, Co, Cs

/// The version of Unicode that a mark, a format character or a compatibility character came with: 8 for 8 and before,
/// 10 for 10 and after; 8 for all others. Models are trained with libraries whose tables end somewhere: what came later
/// passes there unchanged.
int unicode_since(uint32_t code_point);

/// Appends the lower case of a character, as the Unicode data has it without context.
void append_lower_case(std::string& out, uint32_t code_point);
/// The upper case, two letters where the character has two (of the sharp s).
void append_upper_case(std::string& out, uint32_t code_point);
void append_upper_case(std::string& out, uint32_t code_point);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// Normal form of valid UTF-8, by Unicode 9 as in Hugging Face's library: characters that came later stay as they are,
/// and nothing is composed, or put in order, across them.
std::string normal_form(std::string_view text, NormalForm form);

}  // namespace lithe
