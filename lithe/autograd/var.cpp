#include "lithe/autograd/var.h"

#include <cmath>
#include <utility>

#include "lithe/autograd/between.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/packed_matrix.h"
#include "lithe/kernels/kernel.h"
#include "lithe/kernels/optimizer/optimizer.h"

namespace lithe {
namespace {

thread_local Tape* innermost = nullptr;
thread_local bool rehearsal = false;  // in a Rehearsal
thread_local int finite_traces = 0;
thread_local std::function<void()> between_operations;

void check_finite(const char* op, const std::string& part, const char* what, const Tensor& x) {
  if (!x.defined() || x.is_meta() || kernels::all_finite(x)) return;
  int64_t at = 0;
  while (std::isfinite(value_at(x, at))) ++at;
  throw Error("diverged",
              cat("the first value that is not finite is in ", what, " of ", op, part.empty() ? "" : " in ", part,
                  ": element ", at, " of ", x.shape(), " is ", value_at(x, at)),
              ExitCode::diverged);
}

Tensor empty_grad(const GradSlot& slot) {
  const MemoryScope scope(slot.leaf ? MemoryClass::gradients : MemoryClass::activations);
  return empty(slot.shape, slot.dtype, slot.device);
}

}  // namespace

PackedMismatch::PackedMismatch(const kernels::PackedMatrix& matrix, Needs needs)
    : Error("packed", cat("'", matrix.name, "' ", matrix.shape(), " holds ", name_of(matrix.format), " weights",
                          needs == Needs::numbers
                              ? ", and an operation needs its numbers"
                              : cat(" packed by its ", matrix.by_rows ? "rows" : "columns",
                                    ", and an operation needs them by the ", needs == Needs::rows ? "rows" : "columns"),
                          integers(matrix.format) ? cat("; quantise the model with --keep ", matrix.name) : "")),
      matrix_(matrix.name),
      needs_(needs) {}

Var::Var(std::shared_ptr<const kernels::PackedMatrix> packed, DType dtype)
    : value_(Tensor::outline(packed->shape(), dtype)), packed_(std::move(packed)) {}

Device Var::device() const { return packed_ ? packed_->data.device() : value_.device(); }

void Var::throw_without_numbers() const {
  if (packed_) throw PackedMismatch(*packed_, PackedMismatch::Needs::numbers);
  fail("low_rank", "a weight ", value_.shape(), " with a low-rank adapter is read by products alone, and an operation ",
       "needs its numbers; leave it out of train.adapters.targets");
}

Var Var::with_low_rank(std::shared_ptr<const LowRank> update) const {
  Var out = *this;
  out.low_rank_ = std::move(update);
  return out;
}
Var Var::without_low_rank() const { return with_low_rank(nullptr); }

Var Var::with_rounded_inputs(int bits) const {
  Var out = *this;
  out.rounded_inputs_ = bits;
  return out;
}
Var::Var(const Var&) = default;
Var& Var::operator=(const Var&) = default;
Var& Var::operator=(Var&&) noexcept = default;
Var::~Var() = default;

Var Var::leaf(Tensor value) {
  auto slot = std::make_shared<GradSlot>(GradSlot{{}, value.shape(), value.dtype(), value.device(), true});
  return Var(std::move(value), std::move(slot));
}

Grads::Into Grads::into(const GradRef& x) {
  if (!x) return {};
  if (!x->grad.defined()) {
    x->grad = empty_grad(*x);
    return {x->grad, false};
  }
  if (x->grad.sharers() > 1) {  // given by someone who still reads it: add to a copy
    Tensor own = empty_grad(*x);
    copy_into(own, x->grad);
    x->grad = own;
  }
  return {x->grad, true};
}

Tensor Grads::into_zeroed(const GradRef& x) {
  const Into into = this->into(x);
  if (into && !into.accumulate) fill_zero(into.to);
  return into.to;
}

void Grads::give(const GradRef& x, const Tensor& gradient) {
  if (!x) return;
  check(gradient.numel() == x->shape.numel(), "backward", "a gradient of shape ", gradient.shape(),
        " for a value of shape ", x->shape);
  if (!x->grad.defined() && !x->leaf && gradient.dtype() == x->dtype) {
    x->grad = gradient.reshape(x->shape);
    return;
  }
  const bool first = !x->grad.defined();
  Tensor out = first || x->grad.sharers() > 1 ? empty_grad(*x) : x->grad;
  const Tensor shaped = gradient.reshape(x->shape);
  kernels::add({.a = shaped, .b = first ? Tensor() : x->grad, .out = out});
  x->grad = out;
}

Tape::Tape() : previous_(innermost) { innermost = this; }
Tape::~Tape() { innermost = previous_; }
Tape* Tape::current() { return innermost; }

NoGrad::NoGrad() : previous_(innermost), previous_rehearsal_(rehearsal) {
  innermost = nullptr;
  rehearsal = false;
}
NoGrad::~NoGrad() {
  innermost = previous_;
  rehearsal = previous_rehearsal_;
}

Rehearsal::Rehearsal() { rehearsal = true; }

bool training() { return innermost != nullptr || rehearsal; }

FiniteTrace::FiniteTrace() { ++finite_traces; }
FiniteTrace::~FiniteTrace() { --finite_traces; }

void Tape::backward(const Var& y, Tensor dy) {
  check(y.needs_grad(), "backward", "nothing to differentiate: no input of the result needs a gradient");
  if (!dy.defined()) {
    check(y.value().numel() == 1, "backward", "a result of shape ", y.shape(),
          " needs an explicit gradient; only scalars have a default");
    dy = empty(y.shape(), y.dtype(), y.device());
    if (!dy.is_meta()) set_value(dy, 0, 1);
  }
  backward(std::vector<Var>{y}, {std::move(dy)});
}

void Tape::backward(const std::vector<Var>& ys, std::vector<Tensor> dys) {
  check(ys.size() == dys.size(), "backward", ys.size(), " results need a gradient each, got ", dys.size());
  Grads grads;
  for (size_t i = 0; i < ys.size(); ++i) {
    if (ys[i].needs_grad() && dys[i].defined()) grads.give(ys[i].ref(), dys[i]);
    dys[i] = Tensor();
  }
  const NoGrad no_grad;
  while (!entries_.empty()) {
    Entry entry = std::move(entries_.back());
    entries_.pop_back();
    std::vector<Tensor> dys;
    bool any = entry.outputs.empty();  // when_passed_backwards()
    for (const GradRef& output : entry.outputs) {
      dys.push_back(output ? std::move(output->grad) : Tensor());
      if (output) output->grad = Tensor();
      any = any || dys.back().defined();
    }
    if (!any) continue;
    const kernels::PartScope part(entry.part);
    entry.backward(dys, grads);
    if (between_operations) between_operations();
    if (finite_traces)
      for (const GradRef& input : entry.inputs)
        if (input) check_finite(entry.op, entry.part, "the gradient", input->grad);
  }
}

std::vector<Var> record_many(const char* op, const std::vector<GradRef>& inputs, const std::vector<Tensor>& outs,
                             BackwardMany backward) {
  if (finite_traces)
    for (const Tensor& out : outs) check_finite(op, kernels::PartScope::current(), "the output", out);
  bool needed = false;
  for (const GradRef& input : inputs) needed = needed || input;
  std::vector<Var> results;
  if (!innermost || !needed) {
    for (const Tensor& out : outs) results.emplace_back(out);
    return results;
  }
  Tape::Entry entry{op, kernels::PartScope::current(), inputs, {}, std::move(backward)};
  for (const Tensor& out : outs) {
    auto slot = std::make_shared<GradSlot>(GradSlot{{}, out.shape(), out.dtype(), out.device(), false});
    entry.outputs.push_back(slot);
    results.emplace_back(out, slot);
  }
  innermost->entries_.push_back(std::move(entry));
  return results;
}

BetweenOperations::BetweenOperations(std::function<void()> call)
    : before_(std::exchange(between_operations, std::move(call))) {
  if (before_)
    between_operations = [around = before_, own = std::move(between_operations)] {
      around();
      own();
    };
}
BetweenOperations::~BetweenOperations() { between_operations = std::move(before_); }

void when_passed_backwards(std::function<void()> call) {
  if (!innermost) return;
  const auto mark = std::make_shared<GradSlot>();  // an input, so that it is recorded
  record_many("mark", {mark}, {}, [call = std::move(call)](const std::vector<Tensor>&, Grads&) { call(); });
}

bool recording() { return innermost || finite_traces; }

Var detached(const Var& x) {
  if (!x.needs_grad()) return x.value();
  auto slot = std::make_shared<GradSlot>(*x.ref());
  slot->grad = Tensor();
  return Var(x.value(), slot);
}

}  // namespace lithe
