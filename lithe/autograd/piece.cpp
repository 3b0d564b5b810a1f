#include "lithe/autograd/piece.h"

#include <utility>

namespace lithe {
namespace {

thread_local Piece* running = nullptr;

// The same value as an operation's result.
Var alias(const Var& x) {
  return record("alias", {x}, x.value(), [x = x.ref()](const Tensor& dy, Grads& g) { g.give(x, dy); });
}

}  // namespace

Piece::Piece(Mode mode, std::vector<Var> outside) : mode_(mode), around_(running), outside_(std::move(outside)) {
  for (const Var& x : outside_) inside_.push_back(detached(x));
  running = this;
}

Piece::~Piece() { running = around_; }

Var Piece::read(const Var& x) {
  check(!around_, "piece", "a piece within another reads a Var ", x.shape(), " from outside; make it an input");
  for (size_t i = 0; i < outside_.size(); ++i)
    if (outside_[i].ref() == x.ref()) return inside_[i];
  check(mode_ != Mode::replace, "piece", "the second pass reads a Var ", x.shape(), " that the first did not");
  outside_.push_back(x);
  inside_.push_back(mode_ == Mode::gather ? alias(x) : x);
  return inside_.back();
}

void Piece::give_back(Grads& g) const {
  for (size_t i = 0; i < outside_.size(); ++i)
    if (inside_[i].grad().defined()) g.give(outside_[i].ref(), inside_[i].grad());
}

Var from_outside(const Var& x) { return running && x.needs_grad() ? running->read(x) : x; }

std::vector<Var> recompute(const PieceFunction& f, const std::vector<Var>& inputs) {
  bool any = false;
  for (const Var& input : inputs) any = any || input.needs_grad();
  if (!Tape::current() || !any) {
    const Piece piece(Piece::Mode::gather);
    return f(inputs);
  }
  std::vector<Tensor> outs;
  std::vector<Var> outside;
  {
    const Rehearsal first_pass;
    const Piece piece(Piece::Mode::notice);
    for (const Var& y : f(inputs)) outs.push_back(y.value());
    outside = piece.outside();
  }
  std::vector<GradRef> refs;
  for (const std::vector<Var>* from : {&inputs, &std::as_const(outside)})
    for (const Var& x : *from) refs.push_back(x.ref());
  return record_many("recompute", refs, outs, [f, inputs, outside](const std::vector<Tensor>& dys, Grads& g) {
    Tape inner;
    const Piece piece(Piece::Mode::replace, outside);
    std::vector<Var> again;
    for (const Var& input : inputs) again.push_back(detached(input));
    inner.backward(f(again), dys);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (again[i].needs_grad() && again[i].grad().defined()) g.give(inputs[i].ref(), again[i].grad());
    piece.give_back(g);
  });
}

}  // namespace lithe
