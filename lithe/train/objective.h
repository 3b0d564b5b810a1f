// What a model learns to predict: train.objective.
#pragma once

#include "lithe/data/batches.h"
#include "lithe/model/config.h"
#include "lithe/recipe/train_config.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// Batches of an objective made of framed batches without labels:
///   mlm             mlm_probability of the batch's rows are predicted; of these 80 % are shown as the mask token, 10 %
///                   as a random token, 10 % as they are. Specials never are. With whole_word_mask all tokens of a word
///                   are predicted together, as far as the number of rows allows.
///   shuffle_random  every row has label 0 intact, 1 shuffled, 2 random, or none on specials: a token becomes with
///                   shuffle_probability the one at its place of a permutation of its sequence (unless that is a
///                   special), else with random_probability a random one.
/// The choice is a pure function of (seed, epoch, index): new in every epoch (dynamic), equal when asked again.
std::unique_ptr<BatchSource> with_objective(std::unique_ptr<BatchSource> rows, const TrainConfig& config,
                                            std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed);

/// Rows that mlm predicts in a batch of `rows`.
int64_t mlm_predictions(const TrainConfig& config, int64_t rows);

/// Refuses (usage) models and tokenizers that the objective cannot train, and sets num_labels where it decides it.
void prepare_for_objective(const TrainConfig& config, const Tokenizer& tokenizer, ModelConfig& model);

}  // namespace lithe
