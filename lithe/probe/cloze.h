// Facts by cloze: how high a language model ranks the answer in the place of [MASK].
#pragma once

#include <optional>

#include "lithe/probe/word_rows.h"

namespace lithe::probe {

struct Fact {
  std::string text;                     // holds [MASK] once
  std::vector<std::string> answers;     // any of which is right
  std::vector<std::string> candidates;  // empty: those of all facts together
  std::string place;                    // file and line
};
/// JSON lines: {"text": "... [MASK] ...", "answer": "..." or a list, "candidates": optional list}.
std::vector<Fact> read_facts(const Path& file);

struct ClozeOptions {
  /// vocabulary: every token, for answers of one token and models of masked tokens; answers: the answers of all facts;
  /// empty: vocabulary for models of masked tokens, else answers. A fact's own candidates come before both.
  std::string candidates;
};

/// How each fact's best answer was ranked.
struct ClozeResult {
  struct Answer {
    int64_t rank = 0;            // from 1, ties after it count for it; 0: the fact was passed over
    std::string best;            // what ranks first
    double log_probability = 0;  // of the right answer
  };
  std::vector<Answer> answers;
  int64_t passed_over = 0;            // answers of more than one token with candidates vocabulary
  double candidates = 0;              // their mean number
  double precision(int64_t k) const;  // the share of ranks up to k
  double mean_reciprocal_rank() const;
};

// spec: probe.cloze | analysis | facts by filling a mask, ranked by log-probability; P@k, MRR | TB 6.2.5
/// Masked models: each candidate of r tokens is scored by the sum of its tokens' log-probabilities at r masks. Causal
/// models: by the log-probability of the completed text. Fails (usage) on a model that is neither.
ClozeResult probe_cloze(const Probed& model, const std::vector<Fact>& facts, const ClozeOptions& options);

/// The ranks where the answers are ranked by how often they are answers of other facts.
ClozeResult frequent_answers(const std::vector<Fact>& facts);

}  // namespace lithe::probe
