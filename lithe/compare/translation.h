// What is particular to comparing models that translate: the texts, BLEU and chrF with their noise, the work of a step.
#pragma once

#include "lithe/compare/runs.h"
#include "lithe/eval/paired_bootstrap.h"

namespace lithe::compare {

struct Comparison;

/// What all variants learn from and are scored on.
struct Translations {
  TrainingData data;                           // the tokenizers and the batches
  std::vector<TextPair> held_out;              // the test part, else the validation part
  std::string part;                            // which: test, validation
  std::unique_ptr<TranslationBatches> pieces;  // of held_out, in order
  uint64_t fingerprint = 0;                    // of all parts
  // An epoch of training: its pairs, and their rows on each side.
  int64_t pairs = 0, source_rows = 0, target_rows = 0;

  /// Of a micro-batch of training, both sides; they differ by a pair or so.
  double batch_rows() const { return double(source_rows + target_rows) / double(data.train->batches_per_epoch()); }
  /// "1,000 sentences of the test part, 12,103 tokens": what is scored.
  std::string held_out_text() const;
};

/// Those of a setting of objective seq2seq. Fails (usage) when no part is held out.
Translations load_translations(const Setting& setting);

/// Memory is the bound that the largest batches give, FLOPs are those of batches and sentences of the mean size.
Plan plan_translation(const ModelConfig& model, const Setting& setting, const Translations& translations);

/// The loss of the held-out translations, in pieces of some sentences, and the model's own by the setting's search.
void score_translator(const Translations& translations, const LoadedModel& model, const Setting& setting,
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
