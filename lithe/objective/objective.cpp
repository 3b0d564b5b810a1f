#include "lithe/objective/objective.h"

#include "lithe/base/error.h"

namespace lithe {

int64_t Objective::classes(const TaskConfig&) const { return 1; }

std::unique_ptr<BatchSource> Objective::batches(std::unique_ptr<BatchSource> text, std::shared_ptr<const Tokenizer>,
                                                uint64_t) const {
  return text;
}

int64_t Objective::predicted_rows(int64_t) const { return 0; }

Var Objective::loss(const Model& model, const Rows& rows, const Targets& targets, const LossTerms& terms) const {
  return model.loss_of_exit(terms.exit, rows, targets.predicted,
                            {.labels = targets.labels,
                             .smoothing = terms.smoothing,
                             .scale = terms.scale,
                             .sums = terms.sums,
                             .label_sequences = targets.label_sequences});
}

std::unique_ptr<const Objective> make_objective(const PartChoice& choice) {
  BuildContext context;
  return Registry::instance().make<Objective>(choice, Scope(context, "train.objective"), {});
}

}  // namespace lithe
