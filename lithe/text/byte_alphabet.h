// GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written.
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

}  // namespace lithe
