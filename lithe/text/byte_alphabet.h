// How vocabularies spell what is not printable: GPT-2's alphabet of bytes, SentencePiece's spaces and bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lithe {

/// Code point that spells a byte: itself where printable in Latin-1, else U+0100 and following.
uint32_t spell_byte(uint8_t byte);
/// The 256 bytes in the order of their code points: '!' first.
uint8_t byte_in_spelling_order(int i);

/// Spelling of bytes.
std::string spell_bytes(std::string_view bytes);
/// Bytes of a spelling; absent when a character spells none.
std::optional<std::string> unspell_bytes(std::string_view spelling);

/// The byte of a token <0x00> ... <0xFF>; absent for any other.
std::optional<char> fallback_byte(std::string_view token);
/// `token` with spaces where it has U+2581.
std::string unspell_spaces(std::string_view token);

}  // namespace lithe
