// The most likely continuations: a beam of hypotheses per input, all inputs of a batch decoded together.
#pragma once

#include <functional>
#include <span>

#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

struct BeamSearchConfig {
  int64_t num_beams = 4;             // hypotheses kept; 1: greedy
  double length_penalty = 0;         // alpha of the score
  bool early_stopping = false;       // end when num_beams hypotheses have ended, though others may still score higher
  int64_t num_return_sequences = 1;  // at most num_beams
  std::vector<int32_t> stop;         // tokens that end a hypothesis
  std::vector<int32_t> never;        // tokens that are never chosen: padding, the begin of text
  int64_t vocab_size = 0;            // tokens from this one on are never chosen; 0: the model's vocabulary
  /// Changes, in place, the log-probabilities of all tokens behind a hypothesis of input `input` that has `tokens`
  /// behind its prompt; none may be left above 0. A pure function, called from several threads. None: as they are.
  std::function<void(size_t input, std::span<const int32_t> tokens, std::span<double> log_probabilities)> rescore = {};
};

/// BeamSearchConfig::never of texts that `end` ends: bos and pad, where they are not `end`.
std::vector<int32_t> never_written(const Specials& specials, int32_t end);

struct SearchInput {
  std::vector<int32_t> source;                               // encoder_decoder: what the encoder reads
  std::vector<int32_t> prompt;                               // what is continued, the begin of text included
  int64_t max_new_tokens = 1;                                // the token that ends it included
  int64_t min_new_tokens = 0;                                // the token that ends it not included: none ends before
  std::map<std::string, std::vector<int32_t>> further = {};  // what further encoders read, by their names
  /// Beside the tokens of each source (kSource, or a further one), by its name: columns of one or c numbers a token.
  std::map<std::string, std::map<std::string, std::vector<int32_t>>> columns = {};
};

struct Hypothesis {
  std::vector<int32_t> tokens;  // behind the prompt, without the one that ended it
  bool ended = false;           // with a token of `stop`, or cut off at max_new_tokens
  double log_probability = 0;   // of the tokens and of the one that ended them: the model's, or what rescore made of it
  double score = 0;             // log_probability / ((5 + n) / 6)^length_penalty, n: tokens that it counts
};

/// log_probability / ((5 + tokens) / 6)^length_penalty.
double length_score(double log_probability, int64_t tokens, double length_penalty);

/// The best hypotheses of each input, highest score first, at most num_return_sequences; those that were cut off
/// stand behind those that ended.
///
/// A step keeps the num_beams best continuations by log-probability that do not end, and sets aside those that end and
/// are among the num_beams best of all. An input is done when num_beams have ended and no other can reach the score of
/// the worst of these, whatever its length, or at max_new_tokens; with one beam, when it ends. Ties go to the lower
/// token, then to the hypothesis that was better before. An input's result does not depend on the others.
///
/// Log-probabilities are f64 in an f64 model, f32 in others. Sources are encoded once an input. Polls stop_signal():
/// inputs that are not done then have no hypothesis. Fails on a model that does not predict the next token, an empty
/// prompt, and on numbers that are out of range; what is longer than the model's positions fails in the model.
///
/// `sources`, where there are some, are what the encoders read, one sequence an input, and the inputs then have no
/// source of their own: sounds and pictures.
std::vector<std::vector<Hypothesis>> beam_search(const Model& model, std::span<const SearchInput> inputs,
                                                 const BeamSearchConfig& config,
                                                 const std::map<std::string, ModelInput>& sources = {});

}  // namespace lithe
