#include "lithe/eval/error_rate.h"

#include <algorithm>
#include <map>

#include "lithe/base/random.h"
#include "lithe/eval/task_metrics.h"

namespace lithe {
namespace {

bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::vector<std::string> words_heard(std::string_view text) {
  std::vector<std::string> out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && !is_white(text[end])) ++end;
    if (end > i) out.emplace_back(text.substr(i, end - i));
    i = end + 1;
  }
  return out;
}

std::vector<std::string> characters_heard(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string& word : words_heard(text)) {
    if (!out.empty()) out.emplace_back(" ");
    for (const char c : word) {
      const bool goes_on = (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // of a code point
      if (goes_on && !out.empty())
        out.back() += c;
      else
        out.emplace_back(1, c);
    }
  }
  return out;
}

Edits edits_of(const std::vector<std::string>& reference, const std::vector<std::string>& hypothesis) {
  std::map<std::string, int32_t> ids;
  const auto numbered = [&](const std::vector<std::string>& units) {
    std::vector<int32_t> out;
    for (const std::string& unit : units) out.push_back(ids.emplace(unit, int32_t(ids.size())).first->second);
    return out;
  };
  const std::vector<int32_t> a = numbered(reference), b = numbered(hypothesis);
  return {edit_distance(a, b), int64_t(a.size())};
}

double rate_of(int64_t edits, int64_t units) { return edits ? double(edits) / double(units) : 0; }

}  // namespace

Edits word_edits(std::string_view reference, std::string_view hypothesis) {
  return edits_of(words_heard(reference), words_heard(hypothesis));
}
Edits character_edits(std::string_view reference, std::string_view hypothesis) {
  return edits_of(characters_heard(reference), characters_heard(hypothesis));
}

ErrorRate error_rate(const std::vector<Edits>& texts, int64_t samples, uint64_t seed) {
  ErrorRate out;
  for (const Edits& of : texts) out.edits += of.edits, out.units += of.units;
  out.rate = out.low = out.high = rate_of(out.edits, out.units);
  std::vector<double> drawn;
  for (int64_t s = 0; s < samples && !texts.empty(); ++s) {
    const RandomKey key{seed, uint64_t(s), 0, purpose_of("eval.error_rate")};
    int64_t edits = 0, units = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      const Edits& of = texts[size_t(random_below(key, i, texts.size()))];
      edits += of.edits, units += of.units;
    }
    drawn.push_back(rate_of(edits, units));
  }
  if (drawn.empty()) return out;
  std::sort(drawn.begin(), drawn.end());
  out.low = drawn[size_t(0.025 * double(drawn.size() - 1) + 0.5)];
  out.high = drawn[size_t(0.975 * double(drawn.size() - 1) + 0.5)];
  return out;
}

}  // namespace lithe
