#include "lithe/ops/linear_recurrence.h"

#include "lithe/ops/query_key_value.h"

namespace lithe {
namespace {

kernels::LinearRecurrenceArgs arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& sequences,
                                        const RecurrenceOptions& o) {
  check(o.heads > 0 && q.cols() % o.heads == 0 && v.cols() % o.heads == 0 && k.shape() == q.shape(),
        "linear_recurrence", "q, k and v must be [N, heads*d] of ", o.heads, " heads, got ", q.shape(), ", ", k.shape(),
        " and ", v.shape());
  check(sequences.rows() == q.rows() && sequences.rows() == v.rows(), "linear_recurrence", "q ", q.shape(), " and v ",
        v.shape(), " do not fit the ", sequences.rows(), " rows of ", sequences.count(), " sequences");
  kernels::LinearRecurrenceArgs args{.q = q, .k = k, .v = v, .out = empty_like(v)};
  args.heads = o.heads, args.key_dim = q.cols() / o.heads, args.value_dim = v.cols() / o.heads;
  args.scale = o.scale, args.normalise = o.normalise, args.delta = o.delta, args.causal = o.causal;
  if (o.normalise) args.divisors = empty({q.rows(), o.heads}, wide_of(q.dtype()), q.device());
  for (int64_t b = 0; b < sequences.count(); ++b)
    args.segments.push_back({sequences.offset(b), sequences.length(b), {}});
  return args;
}

}  // namespace

Var linear_recurrence(const Var& q, const Var& k, const Var& v, const Var& log_decay, const Var& write,
                      const Sequences& sequences, const RecurrenceOptions& options, const std::vector<Tensor>& states) {
  check(states.empty() || int64_t(states.size()) == sequences.count(), "linear_recurrence",
        "one state a sequence: ", sequences.count(), ", got ", states.size());
  auto args = arguments(q.value(), k.value(), v.value(), sequences, options);
  if (log_decay.defined()) args.log_decay = log_decay.value();
  if (write.defined()) args.write = write.value();
  auto begun = args;  // with the states as they were
  for (size_t b = 0; b < states.size(); ++b) {
    args.segments[b].state = states[b];
    if (Tape::current()) begun.segments[b].state = clone(states[b]);
  }
  kernels::linear_recurrence(args);
  return record("linear_recurrence", {q, k, v, log_decay, write}, args.out,
                [begun, q = q.ref(), k = k.ref(), v = v.ref(), log_decay = log_decay.ref(), write = write.ref()](
                    const Tensor& dy, Grads& g) {
                  const auto decay = g.into(log_decay), written = g.into(write);
                  query_key_value_gradients<kernels::LinearRecurrenceGradArgs>(
                      begun, q, k, v, dy, g, [&](kernels::LinearRecurrenceGradArgs grads) {
                        grads.dlog_decay = decay.to, grads.accumulate_dlog_decay = decay.accumulate;
                        grads.dwrite = written.to, grads.accumulate_dwrite = written.accumulate;
                        kernels::linear_recurrence_grad(grads);
                      });
                });
}

}  // namespace lithe
