// What all variants of a comparison learn from and are scored on: a text, translations, or the examples of a task.
#pragma once

#include "lithe/compare/runs.h"
#include "lithe/compare/speed.h"
#include "lithe/data/batches.h"
#include "lithe/infer/load.h"

namespace lithe::compare {

class Material {
 public:
  virtual ~Material() = default;

  /// Micro-batches of those that the runs learn from; training steps are timed with them.
  virtual const BatchSource& batches() const = 0;
  /// What is scored, in words: "1,000 sentences of the test part, 12,103 tokens".
  virtual std::string held_out() const = 0;
  /// Differs when what is learnt from or scored on differs.
  virtual uint64_t fingerprint() const = 0;

  /// A recipe's model with what the material decides filled in.
  virtual ModelConfig complete(const Recipe& recipe) const = 0;
  struct Work {
    Plan plan;
    double step_tokens = 0;  // rows of an optimiser step, source and target; on average where batches differ
  };
  virtual Work work(const ModelConfig& model, const Recipe& recipe) const = 0;

  /// Fills in the quality of a run's model and, where there are any, its translations or its task's metric. Fails when
  /// asked to stop.
  virtual void score(const LoadedModel& model, const Recipe& recipe, Outcome& outcome) const = 0;
  /// How many translations an outcome holds.
  virtual size_t sentences() const { return 0; }
  /// Fills in what is computed of an outcome each time and not kept.
  virtual void count(Outcome&) const {}

  /// What is timed, of all variants by the settings of one's recipe.
  virtual SpeedMaterial timed(const Recipe& recipe, const MeasureConfig& measure) const = 0;
  /// What of the material and of the recipe changes what timed() takes.
  virtual std::string timed_key(const Recipe&) const { return cat(fingerprint(), "\n"); }
};

/// A text: batches in an order by `seed`.
class TextMaterial final : public Material {
 public:
  /// Fails (usage), in the name of `operation`, when no text is held out.
  TextMaterial(const std::string& operation, const Recipe& recipe, uint64_t seed);
  const BatchOrder& batches() const override { return *batches_; }
  std::string held_out() const override;
  uint64_t fingerprint() const override { return data_.fingerprint(); }
  ModelConfig complete(const Recipe& recipe) const override;
  Work work(const ModelConfig& model, const Recipe& recipe) const override;
  void score(const LoadedModel& model, const Recipe& recipe, Outcome& outcome) const override;
  SpeedMaterial timed(const Recipe&, const MeasureConfig&) const override;
  std::string timed_key(const Recipe&) const override { return ""; }  // prompts are of any text
  const TokenStore& validation() const { return *data_.validation; }

 private:
  Dataset data_;
  std::unique_ptr<BatchOrder> batches_;
  int64_t evaluation_rows_ = 0;  // of the largest evaluation batch
};

/// That of a recipe. Fails (usage) when nothing is held out, and when `score` is not of such a material.
std::unique_ptr<Material> make_material(const Recipe& recipe, const std::string& score);

}  // namespace lithe::compare
