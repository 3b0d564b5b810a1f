// For operations on queries, keys and values that may be one Var.
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// Calls run(args), args a GradArgs with `forward`, dout and where the gradients of q, k and v go. The gradients of a
/// Var's later roles are added to its first when all are done; those that nobody wants go to scratch tensors.
template <class GradArgs, class Run>
void query_key_value_gradients(const decltype(GradArgs::forward)& forward, const GradRef& q, const GradRef& k,
                               const GradRef& v, const Tensor& dy, Grads& g, Run run) {
  const bool k_again = k && k == q, v_again = v && (v == k || v == q);
  const auto target = [&g](const GradRef& x, bool again, const Tensor& like) {
    return x && !again ? g.into(x) : Grads::Into{empty_like(like), false};
  };
  const auto dq = target(q, false, forward.q), dk = target(k, k_again, forward.k), dv = target(v, v_again, forward.v);
  run(GradArgs{.forward = forward,
               .dout = dy,
               .dq = dq.to,
               .dk = dk.to,
               .dv = dv.to,
               .accumulate_dq = dq.accumulate,
               .accumulate_dk = dk.accumulate,
               .accumulate_dv = dv.accumulate});
  if (k_again) g.give(k, dk.to);
  if (v_again) g.give(v, dv.to);
}

}  // namespace lithe
