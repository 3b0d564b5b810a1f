// Everything a comparison found, and its three forms: JSON for programs, Markdown and a page for people.
#pragma once

#include "lithe/compare/runs.h"
#include "lithe/compare/speed.h"
#include "lithe/compare/statistics.h"

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
  std::vector<double> cache_bytes;        // one sequence, by the formula, at Comparison::cache_lengths
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
  std::string what;   // training, prefill, decode
  int64_t cell = -1;  // index into cells; -1: training
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
  std::vector<std::vector<CellCost>> costs;  // by contender: the variants, then the control
  std::vector<std::vector<Timing>> rounds;   // by round and contender
  // The control against the baseline, as |log ratio|: at every measure (training, then prefill and decode by cell), and
  // the middle and the largest of training, prefill, decode.
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
  std::string status = "complete";  // complete, stopped
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
  std::optional<size_t> winner;        // beyond noise against all others
  std::vector<std::string> sentences;  // what it comes to, the most important first

  /// PEoP counts the parameters of the mixers, as its source does, where they differ at all; else all parameters.
  bool peop_by_mixers() const;
  double peop_of(const VariantResult& v) const { return peop_by_mixers() ? v.peop_mixer : v.peop; }
  const std::string& name(size_t variant) const { return variants[variant].variant.name; }
};

/// "token perplexity".
std::string score_name(const std::string& score);
double score_of(const Perplexity& quality, const std::string& score);

/// Fills in what follows from runs and rounds: means, ratios, differences, ranking, crossovers, sentences.
void find(Comparison& comparison);

/// What it comes to in words, the most important first.
std::vector<std::string> say(const Comparison& comparison);

std::string to_json_text(const Comparison& comparison);
std::string to_markdown(const Comparison& comparison);
std::string to_page(const Comparison& comparison);

}  // namespace lithe::compare
