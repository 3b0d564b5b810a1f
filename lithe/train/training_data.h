// What a run learns from and is evaluated on, as batches.
#pragma once

#include <variant>

#include "lithe/data/task.h"
#include "lithe/data/translation.h"
#include "lithe/eval/held_out.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

/// What an epoch of training holds where batches differ in size.
struct EpochSize {
  int64_t sequences = 0, rows = 0;
  std::map<std::string, int64_t> source_rows = {};  // by the name of the encoder
};

/// Lanes of a text whose states are carried: how many, and the tokens of the longest document, as far as a lane holds
/// it.
struct Lanes {
  int64_t count = 0, longest = 0;
};

struct TrainingData {
  std::shared_ptr<const Tokenizer> tokenizer, source_tokenizer;  // source: see Tokenizers
  std::shared_ptr<const Objective> objective;
  std::unique_ptr<BatchSource> train;
  std::unique_ptr<HeldOut> held_out;  // null: nothing is
  uint64_t fingerprint = 0;           // differs when the text or the examples differ
  EpochSize epoch;                    // of translations
  std::optional<TokenStore> text;     // where each next token is predicted, for mixers that read a fixed sequence
  std::optional<Lanes> lanes;         // with train.carry_state
  std::vector<std::string> labels;    // of a task: the names of its classes, none without classes
  std::vector<std::shared_ptr<const TreeSentence>> trees;  // of a treebank: those that are learnt from
};

/// What is learnt from as it was read: a text, the examples of a task, or translations.
struct TrainingTexts {
  Tokenizers tokenizers;
  std::variant<Dataset, TaskData, TranslationData> of;
};
/// Of a task or of translations when the recipe names some, else of text. `existing`: the tokenizers of a resumed or
/// pre-trained model, or none.
TrainingTexts read_training_texts(const Recipe& recipe, const Tokenizers& existing);
/// In batches of the recipe's size, of a text by the objective.
TrainingData cut_into_batches(TrainingTexts texts, const Recipe& recipe);
/// Both.
TrainingData load_training_data(const Recipe& recipe, const Tokenizers& existing);

/// Fits the vocabulary, positions, labels and tags of `model`, the recipe's, to the data, and refuses (usage) what
/// cannot be.
void fit_model(ModelConfig& model, const TrainingData& training, const Recipe& recipe);

}  // namespace lithe
