// A small SentencePiece model, written by hand, for tests that damage it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace lithe {

inline std::string proto_varint(uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out += char(value | 128);
  return out + char(value);
}
inline std::string proto_number(uint64_t field, uint64_t value) {
  return proto_varint(field << 3) + proto_varint(value);
}
inline std::string proto_bytes(uint64_t field, const std::string& bytes) {
  return proto_varint(field << 3 | 2) + proto_varint(bytes.size()) + bytes;
}
inline std::string proto_piece(const std::string& text, float score, uint64_t type) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &score, 4);
  return proto_bytes(1, proto_bytes(1, text) + proto_varint(2 << 3 | 5) + bytes + proto_number(3, type));
}

/// A double array with one rule: 'A' becomes `replacement`.
inline std::vector<uint32_t> one_rule() {
  std::vector<uint32_t> units(1024, 1u << 31);
  units[0] = 256u << 10;                          // children at 256 ^ byte
  units[256 ^ 'A'] = 512u << 10 | 1u << 8 | 'A';  // ends a rule, whose place stands at 256 ^ 'A' ^ 512
  units[256 ^ 'A' ^ 512] = 1u << 31 | 0;
  return units;
}
inline std::string proto_rules(const std::vector<uint32_t>& units, const std::string& replacements) {
  const uint32_t size = uint32_t(4 * units.size());
  std::string out(4 + size, '\0');
  std::memcpy(out.data(), &size, 4);
  std::memcpy(out.data() + 4, units.data(), size);
  return out + replacements;
}

/// Unigram with 'A' normalized to 'a'; `rules` stands in its normalizer.
inline std::string small_sentencepiece(const std::string& rules = proto_rules(one_rule(), std::string("a\0", 2)),
                                       uint64_t kind = 1) {
  std::string model = proto_piece("<unk>", 0, 2) + proto_piece("<s>", 0, 3) + proto_piece("</s>", 0, 3);
  float score = -1;
  for (const char* piece : {"\u2581", "a", "b", "ab", "\u2581a", "ba"}) model += proto_piece(piece, score--, 1);
  model += proto_piece("<x>", 0, 4);
  return model + proto_bytes(2, proto_number(3, kind)) + proto_bytes(3, proto_bytes(2, rules));
}

}  // namespace lithe
