// What a model learns to predict: the slot `objective`, chosen by train.objective.
#pragma once

#include <map>
#include <memory>

#include "lithe/data/batches.h"
#include "lithe/data/task.h"
#include "lithe/model/model.h"
#include "lithe/nn/registry.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// What a recipe gives to learn from.
enum class Lessons {
  text,         // of section data
  task,         // examples of section task
  translation,  // pairs of section translation
};

/// What is known when a model is fitted to its lessons.
struct LessonFacts {
  const Tokenizer& tokenizer;
  double label_smoothing = 0;
  const TaskConfig* task = nullptr;      // where it learns from one
  std::vector<std::string> labels = {};  // of the task's classes, none without classes
  bool learnt = true;                    // the tokenizer knows its tokens; else only its settings are known
  bool named = true;                     // labels are those of the examples; else only their number is known
};

/// What the rows of a batch are to predict.
struct Targets {
  Tensor labels;                   // i32, negative: none; or f32 of a regression: Head::count
  Sequences label_sequences;       // of the labels, where they have lengths of their own
  std::vector<int64_t> predicted;  // see Batch
};

/// What a model made of its input, for who learns from it.
struct Ran {
  const Model& model;
  const Rows& rows;  // the model's, or those that leave it by an exit
  const Pass& pass;
  const ModelInput& input;
  int64_t exit = -1;  // of Model::exits(); -1: the rows are the model's
  /// What the pass has of a tap that was wanted. Fails (usage) where no layer put it.
  Var tap(const Tap& tap) const;
};

/// How a loss is summed up.
struct LossTerms {
  double smoothing = 0, scale = 1;  // the loss is scale * the sum over the labels
  LossSums* sums = nullptr;         // optional
  std::map<std::string, double>* parts =
      nullptr;  // optional, by name: `scale` times what was learned beside, unweighted
};

/// What training makes small.
class TrainingLoss {
 public:
  virtual ~TrainingLoss() = default;
  /// Taps that loss() reads, before the pass runs.
  virtual void want(const Model& model, Pass& pass) const { (void)model, (void)pass; }
  /// A scalar whose gradient reaches the parameters.
  virtual Var loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const = 0;
};

class Objective : public Part, public TrainingLoss {
 public:
  static constexpr const char* slot = "objective";
  struct Args {
    /// The model that it trains, for its own parameters (of the scope) or a model that it learns from; null where it
    /// is only asked what it is, and owns nothing.
    const Model* model = nullptr;
  };

  virtual Lessons learns_from() const { return Lessons::text; }
  /// Every row of a text predicts the token after it: such models continue texts, and perplexity scores them.
  virtual bool predicts_next() const { return false; }
  /// The labels are ids of a vocabulary, so that a perplexity has a meaning.
  virtual bool predicts_vocabulary() const { return false; }
  /// Classes that the heads tag and classify have, as far as the recipe says; 0: only the examples do.
  virtual int64_t classes(const TaskConfig& task) const;
  /// Stands in train.auxiliary_objectives: learns from the batches of another objective, beside it.
  virtual bool beside() const { return false; }
  /// Of one beside another: the weight that the other's loss keeps.
  virtual double left_for_others() const { return 1; }
  /// Refuses (usage) models and tokenizers that it cannot train, and sets num_labels and label_names where it decides
  /// them.
  virtual void prepare(const LessonFacts& facts, ModelConfig& model) const = 0;
  /// Batches to learn from, made of those of a text: with the next tokens as labels where predicts_next(), else framed
  /// and without labels. A pure function of (seed, epoch, index).
  virtual std::unique_ptr<BatchSource> batches(std::unique_ptr<BatchSource> text,
                                               std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed) const;
  /// Length of Batch::predicted in a batch of `rows`; 0: it is empty, and the head says which rows have labels.
  virtual int64_t predicted_rows(int64_t rows) const;
  /// That of the head.
  Var loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const override;
};

/// The part that a recipe names, to be asked what it is: it owns nothing.
std::unique_ptr<const Objective> make_objective(const PartChoice& choice);

}  // namespace lithe
