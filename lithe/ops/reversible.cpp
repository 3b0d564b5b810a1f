#include "lithe/ops/reversible.h"

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

Streams run(const std::vector<ReversibleStep>& steps, Streams x, const std::vector<Var>& inputs) {
  for (const ReversibleStep& f : steps) x = {x.read, f ? add(x.other, f(x.read, inputs)) : x.other};
  return x;
}

// Values of two streams, and their gradients, on the way back.
struct Back {
  Tensor other, read, dother, dread;
};

// From `y` = (x2, x1 + f(x2)) to (x1, x2), gradients as well.
Back undo(const ReversibleStep& f, Back y, const std::vector<Var>& inputs, Grads& g) {
  if (!f) return {y.read, y.other, y.dread, y.dother};
  auto slot = std::make_shared<GradSlot>(
      GradSlot{std::move(y.dother), y.other.shape(), y.other.dtype(), y.other.device(), false});
  std::vector<Var> own;
  for (const Var& input : inputs) own.push_back(detached(input));
  Tape tape;
  const Var fx = f(Var(y.other, slot), own);
  const Tensor x1 = empty_like(y.read);
  kernels::add({.a = y.read, .b = fx.value(), .out = x1, .beta = -1});
  y.read = Tensor();
  if (y.dread.defined() && fx.needs_grad()) tape.backward(fx, y.dread);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (own[i].grad().defined()) g.give(inputs[i].ref(), own[i].grad());
  return {x1, y.other, y.dread, slot->grad};
}

}  // namespace

Streams reversible(const std::vector<ReversibleStep>& steps, Streams x, const std::vector<Var>& inputs) {
  check(x.other.shape() == x.read.shape() && x.other.dtype() == x.read.dtype(), "reversible",
        "both streams must have one shape and dtype, got ", x.other.shape(), " ", x.other.dtype(), " and ",
        x.read.shape(), " ", x.read.dtype());
  std::vector<GradRef> refs{x.other.ref(), x.read.ref()};
  for (const Var& input : inputs) refs.push_back(input.ref());
  bool any = false;
  for (const GradRef& ref : refs) any = any || ref;
  if (!Tape::current() || !any) return run(steps, std::move(x), inputs);
  {
    const Rehearsal first_pass;
    x = run(steps, std::move(x), inputs);
  }
  Back end{x.other.value(), x.read.value(), {}, {}};
  const std::vector<Var> y = record_many("reversible", refs, {end.other, end.read},
                                         [steps, inputs, refs, end](const std::vector<Tensor>& dys, Grads& g) mutable {
                                           Back at = std::move(end);
                                           at.dother = dys[0], at.dread = dys[1];
                                           for (size_t i = steps.size(); i-- > 0;)
                                             at = undo(steps[i], std::move(at), inputs, g);
                                           if (at.dother.defined()) g.give(refs[0], at.dother);
                                           if (at.dread.defined()) g.give(refs[1], at.dread);
                                         });
  return {y[0], y[1]};
}

}  // namespace lithe
