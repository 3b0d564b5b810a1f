// What a run makes small.
#pragma once

#include "lithe/objective/exit_losses.h"
#include "lithe/recipe/train_config.h"

namespace lithe {

/// The loss of train.objective with those of the model's exits, and the losses of train.auxiliary_objectives. It owns
/// the parameters of these, "objective.<name>. ...", which are trained with the model and not published with it.
class TrainedObjective final : public TrainingLoss {
 public:
  /// For this model, which must live as long.
  TrainedObjective(const TrainConfig& config, const Model& model);
  TrainedObjective(const TrainedObjective&) = delete;

  const Objective& main() const { return *main_; }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  void want(const Model& model, Pass& pass) const override;
  Var loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const override;

 private:
  Var main_loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const;
  Parameters parameters_;
  BuildContext context_;
  std::unique_ptr<const Objective> main_;
  ExitLosses with_exits_;
  std::vector<std::pair<std::string, std::unique_ptr<const Objective>>> beside_;  // by name
  double weight_ = 1;                                                             // of the main one and its exits
};

}  // namespace lithe
