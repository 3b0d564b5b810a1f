// Everything a comparison found, and its three forms: JSON for programs, Markdown and a page for people.
#pragma once

#include "lithe/compare/progress.h"
#include "lithe/compare/runs.h"
#include "lithe/compare/speed.h"
#include "lithe/compare/statistics.h"
#include "lithe/compare/translation.h"
#include "lithe/eval/metrics.h"

namespace lithe::compare {

struct VariantResult {
  Variant variant;
  SharedStart start;
  std::vector<Outcome> runs;  // by seed; fewer when the comparison is not complete
  int64_t mixer_parameters = 0;
  // Over the seeds that finished; NaN without one.
  double loss = 0, loss_deviation = 0;    // nats per token
  double score = 0, score_deviation = 0;  // experiment.score
  double prr = 0, prr_deviation = 0;      // percent of the baseline
  double peop = 0, peop_mixer = 0;        // by all parameters, by those of the mixers; NaN where undefined
  // Decode state of one sequence by the formula, at Comparison::cache_lengths or one token before, where that is more
  // (states of blocks empty); of models that translate with a source of the same length, and what one more token of
  // either side takes.
  std::vector<double> cache_bytes;
  int64_t target_state = 0, source_state = 0;
  std::optional<TranslationResult> translation;  // of models that translate; none when no seed finished
  /// Bytes of training, the most of all seeds; 0 where none was measured.
  int64_t measured_peak() const;
  int64_t finished() const;
  int64_t diverged() const;
};

/// The loss of `a` minus that of `b`, by indices of variants.
struct LossDifference {
  size_t a = 0, b = 0;
  Estimate seeds, text, both;
  double p = 1;              // of `both`, corrected for all pairs
  bool beyond = false;       // the noise; never with one seed
  bool beyond_text = false;  // these very weights differ on this text: all that one seed can say
};

/// How long a variant takes relative to another: below 1 is faster.
struct SpeedDifference {
  size_t a = 0, b = 0;
  std::string what;   // training, prefill, decode, translation
  int64_t cell = -1;  // index into cells, of translation into searches; -1: training
  double ratio = 1, low = 1, high = 1, p = 1;
  bool beyond = false;
};

/// From `at` on, `winner` needs less than `loser`.
struct Crossover {
  size_t winner = 0, loser = 0;
  std::string what;   // prefill, decode, cache
  std::string along;  // context length, batch size
  double at = 0;
  int64_t fixed = 0;   // the other coordinate
  bool exact = false;  // computed, not measured
};

struct Speed {
  std::vector<Cell> cells;
  std::vector<std::vector<CellCost>> costs;      // by contender: the variants, then the control
  std::vector<int64_t> searches;                 // see SpeedBench
  std::vector<std::vector<int64_t>> translated;  // see SpeedBench
  int64_t sentences = 0;                         // that each search translates
  std::vector<std::vector<Timing>> rounds;       // by round and contender
  // The control against the baseline, as |log ratio|: at every measure (training, then prefill, decode and translation
  // by cell), and the middle and the largest of training, prefill, decode, translation.
  std::vector<double> control, floor, worst;
  /// The middle and the quartiles over the rounds of `seconds`.
  struct Spread {
    double median = 0, low = 0, high = 0;
  };
  Spread spread(size_t contender, const std::string& what, int64_t cell) const;
  bool measured() const { return !rounds.empty(); }
};

struct Comparison {
  Experiment experiment;
  std::vector<VariantResult> variants;
  size_t baseline = 0, peop_baseline = 0;
  Progress status = Progress::complete;
  std::vector<int64_t> cache_lengths;
  Speed speed;
  std::string held_out;  // what was scored, in words
  uint64_t data = 0;     // fingerprint
  std::vector<std::pair<std::string, std::string>> environment;

  // The findings.
  std::vector<LossDifference> losses;   // all pairs a < b with a common finished seed
  std::vector<SpeedDifference> speeds;  // each variant against the baseline
  std::vector<Crossover> crossovers;
  std::vector<size_t> ranking;         // by loss, the best first; finished ones only
  std::vector<size_t> noisier;         // whose seeds differ more than those of the others: compared by their own alone
  std::optional<size_t> winner;        // beyond noise against all others
  std::vector<std::string> sentences;  // what it comes to, the most important first

  /// PEoP counts the parameters of the mixers, as its source does, where they differ at all; else all parameters.
  bool peop_by_mixers() const;
  double peop_of(const VariantResult& v) const { return peop_by_mixers() ? v.peop_mixer : v.peop; }
  /// The variants translate: they have searches in place of cells.
  bool translates() const { return !variants.empty() && variants[0].variant.translates(); }
  const std::string& name(size_t variant) const { return variants[variant].variant.name; }
};

/// "token perplexity", "BLEU".
std::string score_name(const std::string& score);
double score_of(const Outcome& outcome, const std::string& score);
Better better_of(const std::string& score);
/// "translating greedily", "translating with 4 beams".
std::string search_name(int64_t beams);

/// Pairs of runs with one seed that both finished.
std::vector<std::pair<const Outcome*, const Outcome*>> common_runs(const VariantResult& a, const VariantResult& b);

/// Fills in what follows from runs and rounds: means, ratios, differences, ranking, crossovers, sentences.
void find(Comparison& comparison);

/// What it comes to in words, the most important first.
std::vector<std::string> say(const Comparison& comparison);

std::string to_json_text(const Comparison& comparison);
std::string to_markdown(const Comparison& comparison);
std::string to_page(const Comparison& comparison);

}  // namespace lithe::compare
