#include "lithe/ops/taylor_attention.h"

#include <atomic>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/ops/query_key_value.h"

namespace lithe {
namespace {

kernels::TaylorArgs arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& sequences,
                              const TaylorOptions& o) {
  check(o.heads > 0 && q.cols() % o.heads == 0 && v.cols() % o.heads == 0 && k.shape() == q.shape(), "attend_taylor",
        "q, k and v must be [N, heads*d] of ", o.heads, " heads, got ", q.shape(), ", ", k.shape(), " and ", v.shape());
  check(sequences.rows() == q.rows() && sequences.rows() == v.rows(), "attend_taylor", "q ", q.shape(), " and v ",
        v.shape(), " do not fit the ", sequences.rows(), " rows of ", sequences.count(), " sequences");
  const int64_t head_dim = q.cols() / o.heads;
  kernels::TaylorArgs args{
      .kind = o.kind,
      .q = q,
      .k = k,
      .v = v,
      .out = empty_like(v),
      .sums = empty({q.rows(), o.heads * kernels::taylor_sums(o.kind)}, wide_of(q.dtype()), q.device()),
      .heads = o.heads,
      .head_dim = head_dim,
      .value_dim = v.cols() / o.heads,
      .scale = o.scale != 0 ? o.scale : 1 / std::sqrt(double(head_dim)),
      .causal = o.causal};
  for (int64_t b = 0; b < sequences.count(); ++b)
    args.segments.push_back({sequences.offset(b), sequences.length(b), 0, {}});
  return args;
}

void run(const kernels::TaylorArgs& args) {
  static std::atomic<bool> said = false;
  if (const int64_t clamped = kernels::taylor_attention(args); clamped > 0 && !said.exchange(true))
    log_warning("taylor_attention: mode diag: ", clamped, " of ", args.sums.numel(), " sums of weights were below ",
                kernels::kTaylorFloor, " and taken as that (said once); mode full has no such rows");
}

}  // namespace

// spec: decon.approx | operation | attention with second-order Taylor weights, in tiles or by sums over features | TH
// Eq 4.6, 4.14-4.17
Var attend_taylor(const Var& q, const Var& k, const Var& v, const Sequences& sequences, const TaylorOptions& options) {
  const auto args = arguments(q.value(), k.value(), v.value(), sequences, options);
  run(args);
  const Tensor out = args.out;
  return record(
      "attend_taylor", {q, k, v}, out, [args, q = q.ref(), k = k.ref(), v = v.ref()](const Tensor& dy, Grads& g) {
        query_key_value_gradients<kernels::TaylorGradArgs>(args, q, k, v, dy, g, kernels::taylor_attention_grad);
      });
}

Tensor attend_taylor_step(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& sequences,
                          const std::vector<Tensor>& states, const TaylorOptions& options) {
  check(int64_t(states.size()) == sequences.count(), "attend_taylor", "one state a sequence: ", sequences.count(),
        ", got ", states.size());
  auto args = arguments(q, k, v, sequences, options);
  for (size_t b = 0; b < states.size(); ++b) {
    args.segments[b].past = sequences.past(int64_t(b));
    args.segments[b].state = states[b];
  }
  run(args);
  return args.out;
}

}  // namespace lithe
