// One step of a recurrent layer whose rows depend on the step before by more than h.
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/ops/recurrent.h"

namespace lithe {

using kernels::RecurrentCell;

RecurrentRows recurrent_step(RecurrentCell kind, const Var& x, const Var& w, const Var& bias,
                             const RecurrentRows& before) {
  const int64_t G = kernels::gates_of(kind), d = x.cols() / G, n = x.rows();
  const bool apart = kind == RecurrentCell::gru, celled = kind == RecurrentCell::lstm;
  check(x.cols() == G * d && w.shape() == Shape{d, G * d}, "recurrent_step", "w must be [d, ", G, " d] to match x ",
        x.shape(), ", got ", w.shape());
  check(before.hidden.shape() == Shape{n, d} && (!celled || before.cell.shape() == Shape{n, d}), "recurrent_step",
        "the rows before must be [", n, ",", d, "] to match x ", x.shape(), ", got ", before.hidden.shape());
  kernels::RecurrentCellArgs step{
      .kind = kind, .gates = clone(x.value()), .hidden = empty({n, d}, x.dtype(), x.device())};
  if (celled) step.cell_before = before.cell.value(), step.cell = empty_like(before.cell.value());
  if (apart) step.before = before.hidden.value(), step.kept = empty_like(step.hidden);
  {
    const MemoryScope scope(MemoryClass::workspace);
    const Tensor product = apart ? empty_like(step.gates) : step.gates;
    kernels::gemm({.a = before.hidden.value(),
                   .b = w.value(),
                   .c = product,
                   .bias = value_or_none(bias),
                   .accumulate = !apart,
                   .rowwise = true});
    if (apart) step.recurrent = product;
    kernels::recurrent_cell(step);
    step.recurrent = {};
  }
  std::vector<Tensor> made{step.hidden};
  if (celled) made.push_back(step.cell);
  if (!recording()) return {made[0], celled ? Var(made[1]) : Var()};
  const std::vector<Var> out = record_many(
      "recurrent_step", {x, w, bias, before.hidden, before.cell}, made,
      [step, w, hidden = before.hidden.value(), x = x.ref(), bias = bias.ref(), h = before.hidden.ref(),
       c = before.cell.ref()](const std::vector<Tensor>& dys, Grads& g) {
        const bool apart = step.kind == RecurrentCell::gru, celled = step.kind == RecurrentCell::lstm;
        const auto given = [&](size_t i, const Tensor& like) {
          return i < dys.size() && dys[i].defined() ? dys[i] : zeros(like.shape(), like.dtype(), like.device());
        };
        const Tensor dgates = empty_like(step.gates), drecurrent = apart ? empty_like(step.gates) : dgates;
        const Tensor dcell = celled ? clone(given(1, step.cell)) : Tensor(),
                     dhidden = zeros(step.hidden.shape(), step.hidden.dtype(), step.hidden.device());
        kernels::recurrent_cell_grad({.forward = step,
                                      .dhidden = given(0, step.hidden),
                                      .dgates = dgates,
                                      .drecurrent = apart ? drecurrent : Tensor(),
                                      .dbefore = apart ? dhidden : Tensor(),
                                      .dcell = dcell});
        if (h) {
          kernels::gemm({.a = drecurrent, .b = w.value(), .c = dhidden, .transpose_b = true, .accumulate = true});
          g.give(h, dhidden);
        }
        if (c) g.give(c, dcell);
        if (const auto dw = g.into(w))
          kernels::gemm({.a = hidden, .b = drecurrent, .c = dw.to, .transpose_a = true, .accumulate = dw.accumulate});
        if (bias) kernels::row_affine_grad({.dy = drecurrent, .dshift = g.into_zeroed(bias)});
        if (x) g.give(x, dgates);
      });
  return {out[0], celled ? out[1] : Var()};
}

}  // namespace lithe
