#include "lithe/eval/misspell.h"

#include "lithe/base/files.h"

namespace lithe {
namespace {

constexpr size_t kShortest = 4;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string wrong(std::string word, const RandomKey& key, uint64_t draw) {
  const auto at = 1 + size_t(random_below(key, draw, word.size() - 1));
  switch (random_below(key, draw + 1, 4)) {
    case 0: std::swap(word[at], word[at + 1 < word.size() ? at + 1 : at - 1]); break;  // at - 1 is not the first
    case 1: word.erase(at, 1); break;
    case 2: word.insert(at, 1, word[at]); break;
    default: {
      const char old = char(word[at] | 0x20);
      word[at] = char('a' + (size_t(old - 'a') + 1 + random_below(key, draw + 2, 25)) % 26);
    }
  }
  return word;
}

}  // namespace

std::string misspell(std::string_view text, double rate, uint64_t seed) {
  const RandomKey key{seed, checksum(text.data(), text.size()), 0, purpose_of("misspell")};
  std::string out;
  uint64_t draw = 0;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (end == i) {
      out += text[i++];
      continue;
    }
    const std::string word(text.substr(i, end - i));
    out += word.size() >= kShortest && random_uniform(key, draw) < rate ? wrong(word, key, draw + 1) : word;
    draw += 4;
    i = end;
  }
  return out;
}

void misspell(Example& example, double rate, uint64_t seed) {
  example.text = misspell(example.text, rate, seed);
  example.pair = misspell(example.pair, rate, seed + 1);
  for (std::string& word : example.words) word = misspell(word, rate, seed);
}

}  // namespace lithe
