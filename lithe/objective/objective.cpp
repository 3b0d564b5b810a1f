#include "lithe/objective/objective.h"

#include "lithe/base/error.h"

namespace lithe {

int64_t Objective::classes(const TaskConfig&) const { return 1; }

std::unique_ptr<BatchSource> Objective::batches(std::unique_ptr<BatchSource> text, std::shared_ptr<const Tokenizer>,
                                                uint64_t) const {
  return text;
}

int64_t Objective::predicted_rows(int64_t) const { return 0; }

Var Objective::loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const {
  return ran.model.loss_of_exit(ran.exit, ran.rows, targets.predicted,
                                {.labels = targets.labels,
                                 .smoothing = terms.smoothing,
                                 .scale = terms.scale,
                                 .sums = terms.sums,
                                 .label_sequences = targets.label_sequences});
}

Var Ran::tap(const Tap& tap) const {
  const Var x = pass.get(tap);
  check_usage(x.defined(), "objective", "reads the ", name_of(tap.kind), " of layer ", tap.layer + 1,
              ", and that layer gives none: ", model.config().num_hidden_layers, " layers, stack ",
              model.config().stack.type, "; name a layer that ", "has them and runs, or choose another objective");
  return x;
}

std::unique_ptr<const Objective> make_objective(const PartChoice& choice) {
  BuildContext context;
  return Registry::instance().make<Objective>(choice, Scope(context, "train.objective"), {});
}

}  // namespace lithe
