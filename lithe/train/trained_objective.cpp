#include "lithe/train/trained_objective.h"

#include <optional>

#include "lithe/ops/basic.h"

namespace lithe {

TrainedObjective::TrainedObjective(const TrainConfig& config, const Model& model)
    : context_{.parameters = &parameters_,
               .device = model.device(),
               .dtype = config.parameter_dtype(),
               .compute = model.compute_dtype(),
               .init = model.config().init,
               .seed = uint64_t(config.seed),
               .layers = model.config().num_hidden_layers},
      main_(make_objective(config.objective)),
      with_exits_(*main_) {
  const Scope scope(context_, "objective");
  for (const auto& [name, choice] : config.auxiliaries())
    beside_.emplace_back(name, Registry::instance().make<Objective>(choice, scope / name, {.model = &model}));
  for (const auto& [name, objective] : beside_) weight_ *= objective->left_for_others();
  if (!model.division() || beside_.empty()) return;
  const Layout& layout = model.division()->layout();
  check_usage(layout.pipeline().alone() && layout.sequence().alone(), "train.parallel", "auxiliary objective ",
              beside_.front().first,
              " looks at all tokens and layers, and ranks of pipeline and sequence have their own alone; leave it out, "
              "or set both to 1");
}

void TrainedObjective::want(const Model& model, Pass& pass) const {
  with_exits_.want(model, pass);
  for (const auto& [name, objective] : beside_) objective->want(model, pass);
}

// Of weight 0 it is only looked at.
Var TrainedObjective::main_loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const {
  std::optional<NoGrad> unlearned;
  if (weight_ == 0) unlearned.emplace();
  LossTerms weighted = terms;
  weighted.scale *= weight_;
  return with_exits_.loss(ran, targets, weighted);
}

Var TrainedObjective::loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const {
  Var total = main_loss(ran, targets, terms);
  for (const auto& [name, objective] : beside_) {
    const kernels::PartScope part("objective." + name);
    LossSums sums;
    LossTerms of_this = terms;
    of_this.sums = &sums;
    total = add(total, objective->loss(ran, targets, of_this));
    if (terms.parts) (*terms.parts)[name] += sums.loss * terms.scale;
  }
  return total;
}

}  // namespace lithe
