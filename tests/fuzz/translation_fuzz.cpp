// Reads bytes as parallel texts: a table after 't', else two texts with NUL between. Lines that are accepted are all
// there, and their scores as hypotheses and references are in range.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lithe/base/error.h"
#include "lithe/data/translation.h"
#include "lithe/eval/chrf.h"
#include "lithe/eval/translation_scores.h"

namespace {

void require(bool rule) {
  if (!rule) __builtin_trap();
}

void in_range(double score) { require(score >= 0 && score <= 100.0001); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 5000) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto middle = std::min(text.find('\0'), text.size());
  const std::string_view source = text.substr(0, middle), target = text.substr(std::min(middle + 1, text.size()));
  // Scores are of any bytes.
  const std::vector<std::string> hypotheses = {std::string(source)}, references = {std::string(target)};
  for (const std::string& tokenizer : lithe::bleu_tokenizer_names()) {
    const lithe::TranslationScores scores =
        lithe::score_translations(hypotheses, {references}, {.tokenizer = tokenizer, .lowercase = size % 2 == 0});
    in_range(scores.bleu.score);
    in_range(scores.chrf);
  }
  in_range(lithe::sentence_chrf(source, references, {.word_order = 2}));
  try {
    const bool table = data[0] == 't';
    const auto pairs =
        table ? lithe::parse_pair_table(text, "text") : lithe::parse_pairs(source, "source", target, "target");
    const std::string_view lines = table ? text : source;
    const auto ends = size_t(std::count(lines.begin(), lines.end(), '\n'));
    require(pairs.size() == ends + (lines.back() != '\n'));
    for (const lithe::TextPair& pair : pairs)
      require(pair.source.find('\n') == std::string::npos && pair.target.find('\n') == std::string::npos);
  } catch (const lithe::Error&) {
  }
  return 0;
}
