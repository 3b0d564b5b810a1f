// A recipe: all sections of one YAML file.
#pragma once

#include "lithe/data/config.h"
#include "lithe/data/task_batches.h"
#include "lithe/data/translation.h"
#include "lithe/model/config.h"
#include "lithe/model/from_layers.h"
#include "lithe/objective/objective.h"
#include "lithe/recipe/encode_config.h"
#include "lithe/recipe/eval_config.h"
#include "lithe/recipe/generate_config.h"
#include "lithe/recipe/train_config.h"
#include "lithe/recipe/translate_config.h"

namespace lithe {

struct Recipe {
  std::string from_pretrained;
  bool fresh_weights = false;
  Node pretrained_parts;  // the beginning of parameters' names -> a trained run
  FromLayers from_layers;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  TaskConfig task;
  TranslationConfig translation;
  EvalConfig eval;
  GenerateConfig generate;
  TranslateConfig translate;
  EncodeConfig encode;
  void fields(Fields& f);
  /// The section task names examples.
  bool has_task() const { return !task.train.empty() || !task.test.empty(); }
  /// The section translation names texts.
  bool has_translation() const { return !translation.train.empty() || !translation.test.empty(); }
};

/// Reads `file`. With from_pretrained the section model starts as that run's, and with a task its head is the task's
/// where the recipe names none. Applies overrides ("train.learning_rate=3e-4"), and checks everything.
Recipe load_recipe(const Path& file, const std::vector<std::string>& overrides);
/// The same from text; `origin` stands in errors. `complete`: the text is a resolved recipe, which needs no other file.
Recipe read_recipe(std::string_view text, const std::string& origin, const std::vector<std::string>& overrides = {},
                   bool complete = false);
/// Fills in what else the corpus or the examples would say: the vocabulary by the tokenizer's settings, positions for
/// texts of `length` tokens, and a number of classes. Fails (usage) where the recipe does not say enough.
void complete_without_data(Recipe& recipe, const char* operation, int64_t length);
/// Refuses (usage) sections, objective, tokenizer and model that do not go together, and lets the objective prepare
/// `model`: num_labels and label_names, of a task's `labels`.
void prepare_for_lessons(const Recipe& recipe, const Objective& objective, const Tokenizer& tokenizer,
                         const std::vector<std::string>& labels, ModelConfig& model, bool learnt = true,
                         bool named = true);
/// Rows of features to which the embeddings of these modalities give places.
int64_t placed_rows(const Recipe& recipe, const ModelConfig& model, const Node& modalities);
/// Rows of a sequence that model.position does not count: those of modalities whose embeddings place them.
int64_t own_places(const Recipe& recipe, const ModelConfig& model);
/// How the examples of its task are read.
TaskReading task_reading(const Recipe& recipe);
/// What a sequence has of each modality that the section data speaks of.
std::map<std::string, FeatureShape> feature_shapes(const Recipe& recipe);
/// The modalities of what reads features: of an encoder_decoder, its main encoder's.
Node modalities_of(const ModelConfig& model);
/// The same for a recipe that complete_without_data() completed, with a tokenizer of its settings that learnt nothing.
void prepare_without_data(Recipe& recipe);
/// The section eval; where training carried states and no window is given, they are carried, too.
EvalConfig evaluation_of(const Recipe& recipe);
/// The recipe with every default written out.
Node resolved(Recipe recipe);
/// What a run directory says that it was made with, resolved; what earlier programs wrote, as this one writes it.
Node stored_recipe(const Path& run);
/// The same, read.
Recipe recipe_of_run(const Path& run);

}  // namespace lithe
