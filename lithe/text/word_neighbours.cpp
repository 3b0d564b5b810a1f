#include "lithe/text/word_neighbours.h"

#include <algorithm>
#include <bit>

#include "lithe/base/error.h"
#include "lithe/text/code_tokenizer.h"

namespace lithe {
namespace {

std::vector<int32_t> code_of(const Tokenizer& tokenizer, std::string_view word) {
  check(is_word_tokenizer(tokenizer), "words", "codes of words exist for a tokenizer of type words only");
  auto code = tokenizer.encode(word);
  check(int64_t(code.size()) == tokenizer.width(), "words", "'", word,
        "' must be one word to this tokenizer, but it is ", int64_t(code.size()) / tokenizer.width());
  return code;
}

int64_t hamming(std::span<const int32_t> a, std::span<const int32_t> b) {
  int64_t distance = 0;
  for (size_t i = 0; i < a.size(); ++i) distance += std::popcount(uint32_t(a[i]) ^ uint32_t(b[i]));
  return distance;
}

}  // namespace

WordCollisions word_collisions(const Tokenizer& tokenizer, std::span<const std::string> words) {
  WordTable<std::vector<std::string>> by_code;  // the ints' bytes to the words
  WordTable<bool> seen;
  for (const std::string& word : words) {
    if (seen.find(word)) continue;
    seen.insert(word) = true;
    const auto code = code_of(tokenizer, word);
    by_code.insert({reinterpret_cast<const char*>(code.data()), code.size() * sizeof(int32_t)}).push_back(word);
  }
  WordCollisions out{.words = int64_t(seen.size()), .codes = int64_t(by_code.size())};
  for (size_t c = 0; c < by_code.size(); ++c) {
    const auto& sharing = by_code.value(c);
    out.pairs += int64_t(sharing.size()) * (int64_t(sharing.size()) - 1) / 2;
    if (sharing.size() > out.largest.size()) out.largest = sharing;
    if (sharing.size() < 2) continue;
    out.colliding += int64_t(sharing.size());
    out.shared.push_back(sharing);
  }
  std::stable_sort(out.shared.begin(), out.shared.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return out;
}

std::vector<WordNeighbour> nearest_words(const Tokenizer& tokenizer, std::string_view word,
                                         std::span<const std::string> words, int64_t count) {
  check_usage(count >= 0, "words", "the number of neighbours must be at least 0, got ", count);
  const auto code = code_of(tokenizer, word);
  const bool bits = tokenizer.code().payload == TokenCode::Payload::bits;
  std::vector<WordNeighbour> out;
  for (const std::string& other : words) {
    if (other == word) continue;
    const auto its = code_of(tokenizer, other);
    if (!bits && its != code) continue;
    out.push_back({other, bits ? hamming(code, its) : 0});
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.distance < b.distance; });
  out.resize(std::min(out.size(), size_t(count)));
  return out;
}

}  // namespace lithe
