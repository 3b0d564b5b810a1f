#include "lithe/ops/taylor_attention.h"

#include <atomic>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/ops/query_key_value.h"

namespace lithe {
namespace {

kernels::TaylorArgs arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& sequences,
                              const TaylorOptions& o) {
  check(o.heads > 0 && q.cols() % o.heads == 0 && v.cols() % o.heads == 0 && k.cols() == q.cols(), "attend_taylor",
        "q, k and v must be [N, heads*d] of ", o.heads, " heads, got ", q.shape(), ", ", k.shape(), " and ", v.shape());
  check(sequences.rows() == q.rows(), "attend_taylor", "q ", q.shape(), " does not fit the ", sequences.rows(),
        " rows of ", sequences.count(), " sequences");
  const int64_t head_dim = q.cols() / o.heads;
  kernels::TaylorArgs args{
      .kind = o.kind,
      .q = q,
      .k = k,
      .v = v,
      .out = empty({q.rows(), v.cols()}, v.dtype(), v.device()),
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

kernels::TaylorArgs of_source(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& sequences,
                              const Sequences& source, const TaylorOptions& o) {
  check(!o.causal, "attend_taylor", "what reads another text sees all of it; set causal to false");
  check(source.count() == sequences.count() && source.rows() == k.rows(), "attend_taylor", "k ", k.shape(),
        " does not fit ", source.count(), " sources of ", source.rows(), " rows for ", sequences.count(), " sequences");
  auto args = arguments(q, k, v, sequences, o);
  for (int64_t b = 0; b < source.count(); ++b) {
    args.segments[size_t(b)].key_row = source.offset(b);
    args.segments[size_t(b)].keys = source.length(b);
  }
  return args;
}

void run(const kernels::TaylorArgs& args) {
  static std::atomic<bool> said = false;
  if (const int64_t clamped = kernels::taylor_attention(args); clamped > 0 && !said.exchange(true))
    log_warning("taylor_attention: mode diag: ", clamped, " of ", args.sums.numel(), " sums of weights were below ",
                kernels::kTaylorFloor, " and taken as that (said once); mode full has no such rows");
}

Var recorded(const kernels::TaylorArgs& args, const Var& q, const Var& k, const Var& v) {
  run(args);
  const Tensor out = args.out;
  return record(
      "attend_taylor", {q, k, v}, out, [args, q = q.ref(), k = k.ref(), v = v.ref()](const Tensor& dy, Grads& g) {
        query_key_value_gradients<kernels::TaylorGradArgs>(args, q, k, v, dy, g, kernels::taylor_attention_grad);
      });
}

void check_states(const std::vector<Tensor>& states, const Sequences& sequences) {
  check(int64_t(states.size()) == sequences.count(), "attend_taylor", "one state a sequence: ", sequences.count(),
        ", got ", states.size());
}

}  // namespace

// spec: decon.approx | operation | attention with second-order Taylor weights, in tiles or by sums over features | TH
// Eq 4.6, 4.14-4.17
Var attend_taylor(const Var& q, const Var& k, const Var& v, const Sequences& sequences, const TaylorOptions& options) {
  return recorded(arguments(q.value(), k.value(), v.value(), sequences, options), q, k, v);
}

Var attend_taylor(const Var& q, const Var& k, const Var& v, const Sequences& sequences, const Sequences& source,
                  const TaylorOptions& options) {
  return recorded(of_source(q.value(), k.value(), v.value(), sequences, source, options), q, k, v);
}

Tensor attend_taylor_step(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& sequences,
                          const std::vector<Tensor>& states, const TaylorOptions& options) {
  check_states(states, sequences);
  auto args = arguments(q, k, v, sequences, options);
  for (size_t b = 0; b < states.size(); ++b) {
    args.segments[b].past = sequences.past(int64_t(b));
    args.segments[b].state = states[b];
  }
  run(args);
  return args.out;
}

void sum_up_taylor(const Tensor& k, const Tensor& v, const Sequences& source, const std::vector<Tensor>& states,
                   const TaylorOptions& options) {
  check_states(states, source);
  const Sequences nobody(std::vector<int64_t>(size_t(source.count()) + 1, 0), {}, k.device());
  auto args = of_source(empty({0, k.cols()}, k.dtype(), k.device()), k, v, nobody, source, options);
  for (size_t b = 0; b < states.size(); ++b) args.segments[b].state = states[b];
  run(args);
}

Tensor attend_taylor_read(const Tensor& q, const Sequences& sequences, const std::vector<Tensor>& states,
                          const std::vector<int64_t>& tokens, const TaylorOptions& options) {
  check_states(states, sequences);
  check(tokens.size() == states.size() && !states.empty(), "attend_taylor",
        "one count of tokens a state: ", states.size(), ", got ", tokens.size());
  // The state's rows are value_dim + 1, each of all features but the last count.
  const int64_t head_dim = q.cols() / options.heads,
                value_dim = (states[0].cols() + 1) / kernels::taylor_features(options.kind, head_dim) - 1;
  const Tensor none_k = empty({0, q.cols()}, q.dtype(), q.device()),
               none_v = empty({0, options.heads * value_dim}, q.dtype(), q.device());
  const Sequences nothing(std::vector<int64_t>(states.size() + 1, 0), {}, q.device());
  auto args = of_source(q, none_k, none_v, sequences, nothing, options);
  for (size_t b = 0; b < states.size(); ++b) {
    args.segments[b].past = tokens[b];
    args.segments[b].state = states[b];
  }
  run(args);
  return args.out;
}

}  // namespace lithe
