// The losses of early exits.
#pragma once

#include "lithe/objective/objective.h"

namespace lithe {

/// A loss, and the same of the rows that leave by each exit of the model, weighted as its stack says.
class ExitLosses final : public TrainingLoss {
 public:
  explicit ExitLosses(const TrainingLoss& of) : of_(&of) {}
  void want(const Model& model, Pass& pass) const override;
  Var loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const override;

 private:
  const TrainingLoss* of_;
};

}  // namespace lithe
