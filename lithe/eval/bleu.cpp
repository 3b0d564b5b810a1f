#include "lithe/eval/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "lithe/base/error.h"
#include "lithe/eval/text_ngrams.h"

namespace lithe {
namespace {

constexpr int64_t kOrders = BleuScore::orders;

std::string rounded(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

double default_smoothing_value(const std::string& smoothing) { return smoothing == "floor" ? 0.1 : 1; }

bool takes_value(const std::string& smoothing) { return smoothing == "floor" || smoothing == "add-k"; }

}  // namespace

std::string BleuScore::line(int digits) const {
  char number[64];
  std::snprintf(number, sizeof number, "%.*f", digits, score);
  std::string all;
  for (const double p : precisions) all += (all.empty() ? "" : "/") + rounded("%.1f", p);
  const double ratio = reference_length > 0 ? double(hypothesis_length) / double(reference_length) : 0;
  return cat("BLEU = ", number, " ", all, " (BP = ", rounded("%.3f", brevity_penalty),
             " ratio = ", rounded("%.3f", ratio), " hyp_len = ", hypothesis_length, " ref_len = ", reference_length,
             ")");
}

Bleu::Bleu(BleuOptions options) : options_(std::move(options)), tokenizer_(bleu_tokenizer(options_.tokenizer)) {
  const std::string& smoothing = options_.smoothing;
  check_usage(smoothing == "exp" || smoothing == "none" || takes_value(smoothing), "bleu",
              "smoothing must be one of exp, floor, add-k, none, got '", smoothing, "'");
  check_usage(!options_.smoothing_value || takes_value(smoothing), "bleu", "smoothing ", smoothing,
              " has no value; remove it, or choose floor or add-k");
  check_usage(!options_.smoothing_value || (*options_.smoothing_value > 0 && std::isfinite(*options_.smoothing_value)),
              "bleu", "the smoothing value must be above 0 and finite, got ", options_.smoothing_value.value_or(0));
}

std::string Bleu::signature(int64_t references) const {
  std::string smoothing = options_.smoothing;
  if (takes_value(smoothing))
    smoothing +=
        "[" + rounded("%.2f", options_.smoothing_value.value_or(default_smoothing_value(options_.smoothing))) + "]";
  return metric_signature(
      references, cat("case:", options_.lowercase ? "lc" : "mixed", "|eff:", options_.effective_order ? "yes" : "no",
                      "|tok:", options_.tokenizer, "|smooth:", smoothing));
}

TextCounts Bleu::counts(std::string_view hypothesis, std::span<const std::string> references) const {
  check(!references.empty(), "BLEU", "there is no reference; give at least one");
  const auto units = [&](std::string_view text) {
    return TextUnits::of_words(options_.lowercase ? tokenizer_(lower_text(text)) : tokenizer_(text));
  };
  const TextUnits mine = units(hypothesis);
  std::vector<TextUnits> theirs;
  for (const std::string& reference : references) theirs.push_back(units(reference));

  int64_t nearest = theirs[0].size();  // of equally near ones the shorter
  for (const TextUnits& reference : theirs) {
    const int64_t off = std::abs(reference.size() - mine.size()), best = std::abs(nearest - mine.size());
    if (off < best || (off == best && reference.size() < nearest)) nearest = reference.size();
  }
  TextCounts out(2 + 2 * kOrders);
  out[0] = mine.size();
  out[1] = nearest;
  for (int64_t n = 1; n <= kOrders; ++n) {
    const NgramCounts have = mine.ngrams(n);
    NgramCounts allowed;
    for (const TextUnits& reference : theirs) allowed = larger_counts(allowed, reference.ngrams(n));
    out[size_t(1 + n)] = shared_count(have, allowed);
    out[size_t(1 + kOrders + n)] = total_count(have);
  }
  return out;
}

BleuScore Bleu::details(const TextCounts& counts) const {
  check(counts.size() == size_t(2 + 2 * kOrders), "BLEU", "counts are ", 2 + 2 * kOrders, " numbers, got ",
        counts.size());
  BleuScore out;
  const double h = double(out.hypothesis_length = counts[0]), r = double(out.reference_length = counts[1]);
  if (h < r) out.brevity_penalty = h > 0 ? std::exp(1 - r / h) : 0;
  if (std::all_of(counts.begin() + 2, counts.begin() + 2 + kOrders, [](int64_t n) { return n == 0; })) return out;

  const double value = options_.smoothing_value.value_or(default_smoothing_value(options_.smoothing));
  double halves = 1;
  int64_t order = kOrders;
  for (int64_t n = 1; n <= kOrders; ++n) {
    const double added = options_.smoothing == "add-k" && n > 1 ? value : 0;
    const double matched = double(counts[size_t(1 + n)]) + added, all = double(counts[size_t(1 + kOrders + n)]) + added;
    if (all == 0) break;
    if (options_.effective_order) order = n;
    double& precision = out.precisions[size_t(n - 1)];
    if (matched > 0)
      precision = 100 * matched / all;
    else if (options_.smoothing == "exp")
      precision = 100 / ((halves *= 2) * all);
    else if (options_.smoothing == "floor")
      precision = 100 * value / all;
  }
  double logs = 0;
  for (int64_t n = 0; n < order; ++n) logs += std::log(out.precisions[size_t(n)]);  // log 0 is -inf, exp of it 0
  out.score = out.brevity_penalty * std::exp(logs / double(order));
  return out;
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses, const TextReferences& references,
                      const BleuOptions& options) {
  const Bleu bleu(options);
  return bleu.details(sum_counts(segment_counts(bleu, hypotheses, references)));
}

BleuScore sentence_bleu(std::string_view hypothesis, std::span<const std::string> references, BleuOptions options) {
  options.effective_order = true;
  const Bleu bleu(std::move(options));
  return bleu.details(bleu.counts(hypothesis, references));
}

}  // namespace lithe
