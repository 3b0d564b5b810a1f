// Ways to use a model that take less time than plain decoding: early exits and drafted tokens; and translations, which
// have beams. How good and how fast each is.
#pragma once

#include <string>
#include <vector>

#include "lithe/data/batches.h"
#include "lithe/data/translation.h"
#include "lithe/infer/load.h"
#include "lithe/recipe/translate_config.h"

namespace lithe::fit {

/// Options of the program, beside the weights.
struct Way {
  std::string exit;        // a rule of early exits
  std::string draft;       // who drafts: lookup, exit:N, or "pruned"
  double draft_share = 0;  // pruned: of the parameters of the drafter, which lies beside the model
  int64_t beams = 0;       // of a translator; 0: those of the recipe
  bool plain() const { return exit.empty() && draft.empty() && !beams; }
};

/// What a rule of early exits does to the loss.
struct ExitLosses {
  std::vector<double> losses;  // of the batches, a token
  double mean_layers = 0;
};
/// Of a model that predicts each next token, each text from its second token on; an empty rule: none leaves.
ExitLosses exit_losses(const Model& model, const std::vector<Batch>& batches, const std::string& rule);

/// Seconds of an added token, greedily, plainly and by a way, in turns.
struct TokenTimes {
  double plain = 0, by_way = 0;
  double tokens_a_pass = 1;  // of the model, with drafts
};
/// `drafter`: of Way::draft "pruned".
TokenTimes time_tokens(const LoadedModel& loaded, const std::string& precision, const Way& way, const Path& drafter,
                       const std::vector<std::vector<int32_t>>& prompts, int64_t new_tokens);

/// The most likely token behind each token of the batches' texts, where rows leave by a rule (empty: none leaves).
std::vector<int32_t> greedy_tokens(const Model& model, const std::vector<Batch>& batches, const std::string& rule);
/// The share of positions where both have the same token: how often a draft is taken in greedy decoding.
double agreement_of(const std::vector<int32_t>& drafter, const std::vector<int32_t>& model);
/// Tokens of a pass whose `drafted` drafts are each taken with this probability [Leviathan et al. 2023, Eq 1].
double tokens_a_pass(double agreement, int64_t drafted);
/// The same of a lookup in the text itself, were the text what follows.
double lookup_tokens_a_pass(const std::vector<int32_t>& text, int64_t drafted);

/// Sentences translated one at a time.
struct Translated {
  std::vector<double> chrf;  // of each
  std::vector<std::pair<std::string, double>> scores;
  double seconds = 0;  // of one
  int64_t peak = 0;    // bytes of weights, state and rows
};
Translated translate_each(const LoadedModel& loaded, const std::vector<TextPair>& pairs, TranslateConfig config,
                          int64_t beams);

}  // namespace lithe::fit
