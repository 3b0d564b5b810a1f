// Data that is held out of training, and how well a model does on it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "lithe/objective/device_batch.h"
#include "lithe/parallel/communicator.h"

namespace lithe {

/// Sums over the rows of a batch, without gradients.
LossSums evaluate_batch(const Model& model, const Objective& objective, const DeviceBatch& batch);

/// Called before each piece of work, with how many of all are begun by then; may be empty.
using Progress = std::function<void(int64_t begun, int64_t all)>;

/// While it lives, evaluate() and perplexity() of this thread divide their batches among these ranks, all of which call
/// them. The sums have the digits of one rank.
class DividedEvaluation {
 public:
  explicit DividedEvaluation(Communicator* among);  // null: not divided
  ~DividedEvaluation();
  DividedEvaluation(const DividedEvaluation&) = delete;
  /// Of the innermost; null: not divided.
  static Communicator* ranks();

 private:
  Communicator* before_;
};

/// Sums over the first epoch of `batches`; none when a signal asked to stop.
std::optional<LossSums> evaluate(const Model& model, const Objective& objective, const BatchSource& batches,
                                 const Progress& progress = {});

struct HeldOutScores {
  double loss = 0;                                      // mean over the labels
  std::vector<std::pair<std::string, double>> metrics;  // by name
  double best = 0;                                      // what the best model has most of
  bool perplexity = false;                              // the labels are words of a vocabulary
  double bits_per_byte = 0;                             // 0: has no meaning here
};

/// Held-out data, which know how a model is scored on them.
class HeldOut {
 public:
  virtual ~HeldOut() = default;
  /// What a model is run on; in order, every epoch the same.
  virtual const BatchSource& batches() const = 0;
  /// What chooses the best model: the loss, or a metric.
  struct BestBy {
    std::string name = "loss";
    bool lower = true;  // the less the better
    /// Its value where HeldOutScores::best is `best`.
    double value(double best) const { return lower ? -best : best; }
  };
  virtual BestBy best_by() const { return {}; }
  /// None when a signal asked to stop.
  virtual std::optional<HeldOutScores> score(const Model& model, const Progress& progress = {}) const = 0;
};

/// Scored by the loss alone.
class HeldOutBatches final : public HeldOut {
 public:
  /// `text_bytes`: of a text whose every token is predicted; else 0.
  HeldOutBatches(std::unique_ptr<BatchSource> batches, std::shared_ptr<const Objective> objective, int64_t text_bytes);
  const BatchSource& batches() const override { return *batches_; }
  std::optional<HeldOutScores> score(const Model& model, const Progress& progress) const override;

 private:
  std::unique_ptr<BatchSource> batches_;
  std::shared_ptr<const Objective> objective_;
  int64_t text_bytes_;
};

}  // namespace lithe
