// What a run learns from and is evaluated on, as batches.
#pragma once

#include "lithe/data/config.h"
#include "lithe/data/task_batches.h"
#include "lithe/train/objective.h"

namespace lithe {

struct TrainingData {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<BatchSource> train, validation;  // validation may be null
  uint64_t fingerprint = 0;                        // differs when the text or the examples differ
  int64_t validation_bytes = 0;                    // of text whose every token is predicted; else 0
  std::optional<TokenStore> text;                  // of objective clm, for mixers that read a fixed sequence
  std::vector<std::string> labels;                 // of a task: the names of its classes, none without classes
  /// Classes that a task's head has: one number where there are none.
  int64_t classes() const { return std::max<int64_t>(1, int64_t(labels.size())); }
};

/// Of text, by the objective; of a task when there is one. `existing`: the tokenizer of a resumed or pre-trained model.
TrainingData load_training_data(const DataConfig& data, const TrainConfig& train, const std::optional<TaskConfig>& task,
                                std::shared_ptr<const Tokenizer> existing);

/// The batches of texts that are loaded already.
TrainingData batches_of(Dataset dataset, const DataConfig& data, const TrainConfig& train);

/// Fits the model's vocabulary, positions and labels to the data, and refuses (usage) what cannot be.
void fit_model(ModelConfig& model, const TrainingData& training, const DataConfig& data, const TrainConfig& train,
               const std::optional<TaskConfig>& task);

}  // namespace lithe
