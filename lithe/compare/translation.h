// What is particular to comparing models that translate: the texts, BLEU and chrF with their noise, the work of a step.
#pragma once

#include "lithe/compare/runs.h"
#include "lithe/data/translation_batches.h"
#include "lithe/eval/paired_bootstrap.h"
#include "lithe/infer/load.h"
#include "lithe/train/training_data.h"

namespace lithe::compare {

struct Comparison;

/// What all variants learn from and are scored on.
struct Translations {
  TrainingData data;                         // the tokenizers and the batches
  std::vector<TextPair> held_out;            // the test part, else the validation part
  std::string part;                          // which: test, validation
  std::optional<TranslationBatches> pieces;  // of held_out, in order
  uint64_t fingerprint = 0;                  // of all parts

  /// Of a micro-batch of training, both sides; they differ by a pair or so.
  double batch_rows() const {
    int64_t rows = data.epoch.rows;
    for (const auto& [name, count] : data.epoch.source_rows) rows += count;
    return double(rows) / double(data.train->batches_per_epoch());
  }
  /// "1,000 sentences of the test part, 12,103 tokens": what is scored.
  std::string held_out_text() const;
};

/// Those of a recipe of objective seq2seq. Fails (usage) when no part is held out.
Translations load_translations(const Recipe& recipe);

/// Memory is the bound that the largest batches give, FLOPs are those of batches and sentences of the mean size.
Plan plan_translation(const ModelConfig& model, const Recipe& recipe, const Translations& translations);

/// The loss of the held-out translations, in pieces of some sentences, and the model's own by the recipe's search.
/// Fails when asked to stop.
void score_translator(const Translations& translations, const LoadedModel& model, const Recipe& recipe,
                      Outcome& outcome);
/// Fills in what BLEU and chrF say of a finished outcome's translations. Fails when there is not one for each sentence.
void count_matches(const Translations& translations, Outcome& outcome);

/// The mean over the seeds of a metric of translations, with the noise that the choice of sentences brings; p is of the
/// difference from the baseline over their common seeds, NaN for the baseline itself.
struct ResampledMetric {
  ResampledScore score;
  double p = std::nan(""), corrected = std::nan("");  // corrected: for all variants (Holm)
  bool beyond = false;                                // the corrected p is below 1 - confidence
};
struct TranslationResult {
  ResampledMetric bleu, chrf;
};

/// Fills in the TranslationResult of each variant that finished.
void resample(Comparison& comparison);

}  // namespace lithe::compare
