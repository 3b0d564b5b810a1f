// How well a model translates texts of which the translations are known.
#pragma once

#include "lithe/data/config.h"
#include "lithe/data/translation_batches.h"
#include "lithe/eval/held_out.h"
#include "lithe/infer/translate.h"

namespace lithe {

/// Translations as they are evaluated: in order, whole.
TranslationBatches held_out_translations(std::vector<TextPair> pairs, const Tokenizers& tokenizers,
                                         const DataConfig& data, int64_t batch_tokens, bool cut_sources = false);

/// The best translation of each pair's source. Polls stop_signal(): what it returns then is not complete.
std::vector<std::string> translate_sources(const Model& model, const Tokenizers& tokenizers,
                                           const std::vector<TextPair>& pairs, TranslateConfig config);

/// Held-out translations, scored by the loss, and by BLEU and chrF of greedy translations where one of these chooses
/// the best model (TranslationConfig::metric_for_best_model).
class HeldOutTranslations final : public HeldOut {
 public:
  HeldOutTranslations(TranslationBatches batches, Tokenizers tokenizers, std::shared_ptr<const Objective> objective,
                      std::string metric_for_best_model, const TranslateConfig& translate);
  const TranslationBatches& batches() const override { return batches_; }
  BestBy best_by() const override { return {metric_, metric_ == "loss"}; }
  std::optional<HeldOutScores> score(const Model& model, const Progress& progress = {}) const override;

 private:
  TranslationBatches batches_;
  Tokenizers tokenizers_;
  std::shared_ptr<const Objective> objective_;
  std::string metric_;
  TranslateConfig greedy_;
};

}  // namespace lithe
