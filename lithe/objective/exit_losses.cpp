#include "lithe/objective/exit_losses.h"

#include "lithe/ops/basic.h"

namespace lithe {

void ExitLosses::want(const Model& model, Pass& pass) const {
  of_->want(model, pass);
  model.want_exits(pass);
}

Var ExitLosses::loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const {
  Var total = of_->loss(ran, targets, terms);
  const std::vector<StackExit>& exits = ran.model.exits();
  for (size_t e = 0; e < exits.size(); ++e) {
    LossSums sums;
    const Rows rows = ran.model.exit_rows(ran.pass, int64_t(e), ran.rows.sequences);
    const Var of_exit =
        of_->loss({ran.model, rows, ran.pass, ran.input, int64_t(e)}, targets,
                  {.smoothing = terms.smoothing, .scale = terms.scale * exits[e].weight, .sums = &sums});
    total = add(total, of_exit);
    if (terms.parts) (*terms.parts)[cat("exit_", exits[e].layer + 1)] += sums.loss * terms.scale;
  }
  return total;
}

}  // namespace lithe
