#include "lithe/ops/reversible.h"

#include "lithe/autograd/piece.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

using Results = std::vector<std::vector<Var>>;

bool adds(const std::vector<Var>& made) { return !made.empty() && made[0].defined(); }

// Values of two streams, and their gradients, on the way back.
struct Back {
  Tensor other, read, dother, dread;
};

// From `y` = (x2, x1 + f(x2)) to (x1, x2), gradients as well. `dothers`: of f's other results.
Back undo(const ReversibleStep& f, Back y, std::vector<Tensor> dothers, const std::vector<Var>& outside, Grads& g) {
  auto slot = std::make_shared<GradSlot>(
      GradSlot{std::move(y.dother), y.other.shape(), y.other.dtype(), y.other.device(), false});
  if (!f) return {y.read, y.other, y.dread, slot->grad};
  Tape tape;
  const Piece piece(Piece::Mode::replace, outside);
  const std::vector<Var> made = f(Var(y.other, slot));
  Tensor x1 = y.read;
  if (adds(made)) {
    x1 = empty_like(y.read);
    kernels::add({.a = y.read, .b = made[0].value(), .out = x1, .beta = -1});
  }
  y.read = Tensor();
  if (!made.empty()) dothers.insert(dothers.begin(), adds(made) ? y.dread : Tensor());
  tape.backward(made, std::move(dothers));
  piece.give_back(g);
  return {x1, y.other, y.dread, slot->grad};
}

}  // namespace

Streams run_steps(const std::vector<ReversibleStep>& steps, Streams x, Results* others) {
  if (others) others->clear();
  for (const ReversibleStep& f : steps) {
    std::vector<Var> made = f ? f(x.read) : std::vector<Var>{};
    x = {x.read, adds(made) ? add(x.other, made[0]) : x.other};
    if (!made.empty()) made.erase(made.begin());
    if (others) others->push_back(std::move(made));
  }
  return x;
}

Streams reversible(const std::vector<ReversibleStep>& steps, Streams x, Results* others) {
  check(x.other.shape() == x.read.shape() && x.other.dtype() == x.read.dtype(), "reversible",
        "both streams must have one shape and dtype, got ", x.other.shape(), " ", x.other.dtype(), " and ",
        x.read.shape(), " ", x.read.dtype());
  Results results;
  if (!Tape::current() || !(x.other.needs_grad() || x.read.needs_grad())) {
    const Piece piece(Piece::Mode::gather);
    return run_steps(steps, std::move(x), others);
  }
  std::vector<GradRef> refs{x.other.ref(), x.read.ref()};
  std::vector<Var> outside;
  {
    const Rehearsal first_pass;
    const Piece piece(Piece::Mode::notice);
    x = run_steps(steps, std::move(x), &results);
    outside = piece.outside();
  }
  for (const Var& read : outside) refs.push_back(read.ref());
  std::vector<Tensor> outs{x.other.value(), x.read.value()};
  std::vector<size_t> counts;  // of each step's other results
  for (const std::vector<Var>& of : results) {
    counts.push_back(of.size());
    for (const Var& y : of) outs.push_back(y.value());
  }
  Back end{outs[0], outs[1], {}, {}};
  const std::vector<Var> y = record_many("reversible", refs, outs,
                                         [steps, outside, counts, end, stream_refs = std::pair(refs[0], refs[1])](
                                             const std::vector<Tensor>& dys, Grads& g) mutable {
                                           Back at = std::move(end);
                                           at.dother = dys[0], at.dread = dys[1];
                                           auto last = dys.end();
                                           for (size_t i = steps.size(); i-- > 0;) {
                                             const auto first = last - int64_t(counts[i]);
                                             at = undo(steps[i], std::move(at), {first, last}, outside, g);
                                             last = first;
                                           }
                                           if (at.dother.defined()) g.give(stream_refs.first, at.dother);
                                           if (at.dread.defined()) g.give(stream_refs.second, at.dread);
                                         });
  if (others) {
    others->clear();
    auto next = y.begin() + 2;
    for (const size_t count : counts) {
      others->emplace_back(next, next + int64_t(count));
      next += int64_t(count);
    }
  }
  return {y[0], y[1]};
}

}  // namespace lithe
