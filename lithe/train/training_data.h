// What a run learns from and is evaluated on, as batches.
#pragma once

#include "lithe/data/config.h"
#include "lithe/data/task_batches.h"
#include "lithe/data/translation_batches.h"
#include "lithe/train/objective.h"

namespace lithe {

/// What a recipe learns from: examples of a task, translations, or (neither) text.
struct Lessons {
  std::optional<TaskConfig> task;
  std::optional<TranslationConfig> translation;
};

struct TrainingData {
  std::shared_ptr<const Tokenizer> tokenizer, source_tokenizer;  // source: see Tokenizers
  std::unique_ptr<BatchSource> train, validation;                // validation may be null
  uint64_t fingerprint = 0;                                      // differs when the text or the examples differ
  int64_t validation_bytes = 0;                                  // of text whose every token is predicted; else 0
  std::optional<TokenStore> text;   // of objective clm, for mixers that read a fixed sequence
  std::vector<std::string> labels;  // of a task: the names of its classes, none without classes
  /// Classes that a task's head has: one number where there are none.
  int64_t classes() const { return std::max<int64_t>(1, int64_t(labels.size())); }
};

/// Of text, by the objective; of a task or of translations when there are some. `existing`: the tokenizers of a resumed
/// or pre-trained model, or none.
TrainingData load_training_data(const DataConfig& data, const TrainConfig& train, const Lessons& lessons,
                                const Tokenizers& existing);

/// Translations as they are evaluated: in order, whole.
std::unique_ptr<TranslationBatches> held_out_translations(std::vector<TextPair> pairs, const Tokenizers& tokenizers,
                                                          const DataConfig& data, int64_t batch_tokens);

/// The batches of texts that are loaded already.
TrainingData batches_of(Dataset dataset, const DataConfig& data, const TrainConfig& train);

/// Fits the model's vocabulary, positions and labels to the data, and refuses (usage) what cannot be.
void fit_model(ModelConfig& model, const TrainingData& training, const DataConfig& data, const TrainConfig& train,
               const Lessons& lessons);

}  // namespace lithe
