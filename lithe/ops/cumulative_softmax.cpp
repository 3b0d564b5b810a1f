#include "lithe/ops/cumulative_softmax.h"

#include "lithe/kernels/cumulative_softmax/cumulative_softmax.h"
#include "lithe/kernels/head_dot/head_dot.h"

namespace lithe {
namespace {

kernels::CumulativeSoftmaxArgs arguments(const Tensor& s, const Tensor& v, const Sequences& sequences) {
  check(sequences.rows() == v.rows(), "cumulative_softmax", "v ", v.shape(), " does not fit the ", sequences.rows(),
        " rows of ", sequences.count(), " sequences");
  kernels::CumulativeSoftmaxArgs args{.s = s, .v = v, .out = empty_like(v)};
  for (int64_t b = 0; b < sequences.count(); ++b)
    args.segments.push_back({sequences.offset(b), sequences.length(b), {}});
  return args;
}

}  // namespace

Var head_dot(const Var& a, const Var& b, int64_t heads, double scale) {
  check(a.shape() == b.shape() && heads > 0 && a.cols() % heads == 0, "head_dot",
        "a and b must be equal [N, heads*d_h] of ", heads, " heads, got ", a.shape(), " and ", b.shape());
  Tensor s = empty({a.rows(), heads}, wide_of(a.dtype()), a.device());
  kernels::head_dot({.a = a.value(), .b = b.value(), .s = s, .scale = scale});
  return record("head_dot", {a, b}, s, [a, b, scale](const Tensor& ds, Grads& g) {
    if (const auto da = g.into(a))
      kernels::head_dot_grad(
          {.a = a.value(), .b = b.value(), .ds = ds, .da = da.to, .scale = scale, .accumulate_da = da.accumulate});
    if (const auto db = g.into(b))
      kernels::head_dot_grad(
          {.a = a.value(), .b = b.value(), .ds = ds, .db = db.to, .scale = scale, .accumulate_db = db.accumulate});
  });
}

// spec: decon.nonapprox | operation | running softmax-weighted mean with weights that all queries share | TH Eq 4.18
Var cumulative_softmax(const Var& s, const Var& v, const Sequences& sequences, bool causal) {
  auto args = arguments(s.value(), v.value(), sequences);
  args.causal = causal;
  if (Tape::current()) args.lse = empty_like(s.value());
  kernels::cumulative_softmax(args);
  const Tensor out = args.out;
  return record("cumulative_softmax", {s, v}, out, [args, s = s.ref(), v = v.ref()](const Tensor& dy, Grads& g) {
    const auto ds = s ? g.into(s) : Grads::Into{empty_like(args.s), false};
    const auto dv = v ? g.into(v) : Grads::Into{empty_like(args.v), false};
    kernels::cumulative_softmax_grad({.forward = args,
                                      .dout = dy,
                                      .ds = ds.to,
                                      .dv = dv.to,
                                      .accumulate_ds = ds.accumulate,
                                      .accumulate_dv = dv.accumulate});
  });
}

Tensor cumulative_softmax_step(const Tensor& s, const Tensor& v, const Sequences& sequences,
                               const std::vector<Tensor>& states) {
  check(int64_t(states.size()) == sequences.count(), "cumulative_softmax", "one state a sequence: ", sequences.count(),
        ", got ", states.size());
  auto args = arguments(s, v, sequences);
  for (size_t b = 0; b < states.size(); ++b) args.segments[b].state = states[b];
  kernels::cumulative_softmax(args);
  return args.out;
}

}  // namespace lithe
