#include "lithe/ops/diagonal_recurrence.h"

namespace lithe {

Var diagonal_recurrence(const Var& x, const Var& a, const Var& b, const Sequences& sequences, bool complex,
                        const std::vector<Tensor>& states) {
  check(sequences.rows() == x.rows(), "diagonal_recurrence", "x ", x.shape(), " does not fit the ", sequences.rows(),
        " rows of ", sequences.count(), " sequences");
  check(states.empty() || int64_t(states.size()) == sequences.count(), "diagonal_recurrence",
        "one state a sequence: ", sequences.count(), ", got ", states.size());
  kernels::DiagonalRecurrenceArgs args{.x = x.value(), .a = a.value(), .y = empty_like(x.value()), .complex = complex};
  if (b.defined()) args.b = b.value();
  for (int64_t i = 0; i < sequences.count(); ++i)
    args.segments.push_back({sequences.offset(i), sequences.length(i), {}});
  auto begun = args;  // with the states as they were
  for (size_t i = 0; i < states.size(); ++i) {
    args.segments[i].state = states[i];
    if (Tape::current()) begun.segments[i].state = clone(states[i]);
  }
  kernels::diagonal_recurrence(args);
  return record("diagonal_recurrence", {x, a, b}, args.y,
                [begun, x = x.ref(), a = a.ref(), b = b.ref()](const Tensor& dy, Grads& g) {
                  const auto dx = x ? g.into(x) : Grads::Into{empty_like(begun.x), false};
                  const auto da = g.into(a), db = g.into(b);
                  kernels::diagonal_recurrence_grad({.forward = begun,
                                                     .dy = dy,
                                                     .dx = dx.to,
                                                     .da = da.to,
                                                     .db = db.to,
                                                     .accumulate_dx = dx.accumulate,
                                                     .accumulate_da = da.accumulate,
                                                     .accumulate_db = db.accumulate});
                });
}

}  // namespace lithe
