#include "lithe/nn/in_turns.h"

#include <utility>

namespace lithe {
namespace {

thread_local ParametersInTurns* in_use = nullptr;

}  // namespace

ParametersInTurns::ParametersInTurns(Made made) : made_(std::move(made)) {
  check(!in_use, "model", "internal: parameters are made in turns already");
  in_use = this;
}

ParametersInTurns::~ParametersInTurns() { in_use = nullptr; }

void ParametersInTurns::before(const Parameters& parameters, int64_t layer) {
  if (!in_use) return;
  if (!in_use->of_) in_use->of_ = &parameters;
  if (in_use->of_ != &parameters || in_use->layer_ == layer) return;
  in_use->finish();
  in_use->layer_ = layer;
}

void ParametersInTurns::added(const Parameters& parameters, Parameter* parameter) {
  if (in_use && in_use->of_ == &parameters) in_use->waiting_.push_back(parameter);
}

void ParametersInTurns::finish() {
  const std::vector<Parameter*> now = std::exchange(waiting_, {});
  if (now.empty()) return;
  // What `made` builds on its part is none of this.
  ParametersInTurns* const self = std::exchange(in_use, nullptr);
  struct Again {
    ParametersInTurns* self;
    ~Again() { in_use = self; }
  } const again{self};
  made_(now);
  for (Parameter* p : now) {
    p->means.reset();
    p->view.reset();
    p->master = Var(Tensor::outline(p->master.shape(), p->master.dtype()));
  }
}

}  // namespace lithe
