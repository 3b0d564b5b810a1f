// Sentences in one language to sentences in another, with an encoder-decoder.
#pragma once

#include <functional>
#include <map>

#include "lithe/infer/logit_steps.h"
#include "lithe/model/model.h"
#include "lithe/recipe/translate_config.h"
#include "lithe/text/tokenizer.h"
#include "lithe/trees/treebank.h"

namespace lithe {

struct Translation {
  std::string text;             // valid UTF-8: what is none is U+FFFD
  std::vector<int32_t> tokens;  // of the target, the prefix included, without those that begin and end it
  double score = 0;  // log_probability / ((5 + n) / 6)^length_penalty, n: tokens behind the prefix, end included
  double log_probability = 0;  // of these n tokens
};

/// What the further encoders of a model read, by their names: a text for each sentence.
using FurtherTexts = std::map<std::string, std::vector<std::string>>;

/// What translations may need beside the sentences.
struct TranslationExtras {
  /// Further encoders read their texts in the same way, also blank ones; texts that no encoder reads are left alone.
  FurtherTexts further = {};
  /// The sentences' trees, of a model that reads their columns; its sentences are cut word by word, as in training.
  std::vector<std::shared_ptr<const TreeSentence>> trees = {};
  /// What may not follow, of draws and, with one of the likeliest tokens (top_k 1), of greedy search.
  LogitSteps steps = {};
};

/// The translations of each sentence, best first, at most num_return_sequences. The encoder reads the sentence's tokens
/// and the source's eos; the target begins with its bos (eos where it has none) and `prefix`. A sentence of white space
/// alone has one empty translation; another has one of min_new_tokens or more, those of the prefix counted. Results do
/// not depend on batch_size or on the other sentences.
///
/// With config.do_sample, translations are drawn by a DecodeLoop of batch_size slots, as a function of the seed and the
/// number of the line. Else they are searched: batches run one after another on all threads or, where a step is little
/// work, side by side on one thread each; what they keep adds up then.
///
/// `on_done(i, translations)`, optional, is called when sentence i is done, in any order, by one thread at a time; what
/// it throws ends the work. Polls stop_signal(): sentences that are not done then have no translation. Fails (usage) on
/// a model that is no encoder_decoder, tokenizers without eos, an encoder without texts, and a sentence, a text or a
/// prefix that is longer than the model's positions; errors call the first sentence line `first_line`.
std::vector<std::vector<Translation>> translate(
    const Model& model, const Tokenizer& source, const Tokenizer& target, const std::vector<std::string>& sentences,
    const TranslateConfig& config, const std::string& prefix = "",
    const std::function<void(size_t, const std::vector<Translation>&)>& on_done = {}, int64_t first_line = 1,
    const TranslationExtras& extras = {});

}  // namespace lithe
