#include "lithe/eval/chrf.h"

#include "lithe/base/error.h"
#include "lithe/eval/text_ngrams.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

bool is_mark(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// "word," as "word" and ",": a mark at the end, else one at the beginning.
std::vector<std::string> without_marks(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const bool single = utf8_unit(word).length == word.size();
    const size_t cut = single ? 0 : is_mark(word.back()) ? word.size() - 1 : is_mark(word.front()) ? 1 : 0;
    if (cut > 0) out.push_back(word.substr(0, cut));
    out.push_back(word.substr(cut));
  }
  return out;
}

}  // namespace

Chrf::Chrf(ChrfOptions options) : options_(options) {
  check_usage(options_.char_order >= 0 && options_.word_order >= 0 && options_.char_order + options_.word_order > 0,
              "chrf", "orders must be at least 0 and one of them above 0, got char_order ", options_.char_order,
              " and word_order ", options_.word_order);
  check_usage(options_.beta >= 1, "chrf", "beta must be at least 1, got ", options_.beta);
}

std::string Chrf::name() const { return cat("chrF", options_.beta, std::string(size_t(options_.word_order), '+')); }

std::string Chrf::signature(int64_t references) const {
  return metric_signature(references, cat("case:", options_.lowercase ? "lc" : "mixed", "|eff:yes|nc:",
                                          options_.char_order, "|nw:", options_.word_order, "|space:no"));
}

TextCounts Chrf::counts(std::string_view hypothesis, std::span<const std::string> references) const {
  check(!references.empty(), "chrF", "there is no reference; give at least one");
  struct Text {
    TextUnits characters, words;
    explicit Text(const std::vector<std::string>& split)
        : characters(TextUnits::of_characters(split)), words(TextUnits::of_words(without_marks(split))) {}
  };
  const auto text_of = [&](std::string_view text) {
    return Text(options_.lowercase ? split_words(lower_text(text)) : split_words(text));
  };
  const Text mine = text_of(hypothesis);
  TextCounts best;
  double best_score = -1;
  for (const std::string& reference : references) {
    const Text theirs = text_of(reference);
    TextCounts counts;
    const auto count = [&](const TextUnits& a, const TextUnits& b, int64_t orders) {
      for (int64_t n = 1; n <= orders; ++n) {
        const NgramCounts have = a.ngrams(n), wanted = b.ngrams(n);
        // Without n-grams of this order in the reference those of the hypothesis do not count against it.
        counts.insert(counts.end(),
                      {wanted.empty() ? 0 : total_count(have), total_count(wanted), shared_count(have, wanted)});
      }
    };
    count(mine.characters, theirs.characters, options_.char_order);
    count(mine.words, theirs.words, options_.word_order);
    const double value = score(counts);
    if (value > best_score) {
      best_score = value;
      best = std::move(counts);
    }
  }
  return best;
}

double Chrf::score(const TextCounts& counts) const {
  const int64_t orders = options_.char_order + options_.word_order;
  check(counts.size() == size_t(3 * orders), name(), "counts are ", 3 * orders, " numbers, got ", counts.size());
  double precision = 0, recall = 0;
  int64_t effective = 0;
  for (size_t i = 0; i < counts.size(); i += 3) {
    if (counts[i] == 0 || counts[i + 1] == 0) continue;
    precision += double(counts[i + 2]) / double(counts[i]);
    recall += double(counts[i + 2]) / double(counts[i + 1]);
    ++effective;
  }
  if (precision + recall == 0) return 0;
  precision /= double(effective);
  recall /= double(effective);
  const double factor = double(options_.beta * options_.beta);
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

double corpus_chrf(std::span<const std::string> hypotheses, const TextReferences& references,
                   const ChrfOptions& options) {
  const Chrf chrf(options);
  return chrf.score(sum_counts(segment_counts(chrf, hypotheses, references)));
}

double sentence_chrf(std::string_view hypothesis, std::span<const std::string> references, const ChrfOptions& options) {
  const Chrf chrf(options);
  return chrf.score(chrf.counts(hypothesis, references));
}

}  // namespace lithe
