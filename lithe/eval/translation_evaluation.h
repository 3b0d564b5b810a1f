// How well a model translates texts of which the translations are known.
#pragma once

#include "lithe/data/translation_batches.h"
#include "lithe/infer/translate.h"
#include "lithe/train/run_log.h"
#include "lithe/train/training_data.h"

namespace lithe {

/// The best translation of each pair's source. Polls stop_signal(): what it returns then is not complete.
std::vector<std::string> translate_sources(const Model& model, const Tokenizers& tokenizers,
                                           const std::vector<TextPair>& pairs, TranslateConfig config);

/// What the trainer calls at each evaluation: the loss, and where the best model is chosen by a metric of translations,
/// all of these of greedy translations. Null where the loss is all.
std::function<HeldOutScores(const Model&, const TrainingData&)> score_translation_of(const TranslationConfig& config,
                                                                                     const TranslateConfig& translate);

}  // namespace lithe
