#include "lithe/ops/weighted_sum.h"

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/head_dot/head_dot.h"

namespace lithe {

Var weighted_sum(const std::vector<Var>& xs, const Var& weights) {
  const auto n = int64_t(xs.size());
  check(n > 0 && weights.value().numel() == n, "weighted_sum", "needs a weight for each of ", n, " tensors, got ",
        weights.shape());
  for (const Var& x : xs)
    check(x.shape() == xs[0].shape() && x.dtype() == xs[0].dtype(), "weighted_sum",
          "tensors must have one shape and dtype, got ", xs[0].dtype(), xs[0].shape(), " and ", x.dtype(), x.shape());
  const auto weight = [w = weights.value()](size_t k) { return w.is_meta() ? 1 : value_at(w, int64_t(k)); };
  const Tensor out = empty_like(xs[0].value());
  for (size_t k = 0; k < xs.size(); ++k)
    kernels::add({.a = xs[k].value(), .b = k ? out : Tensor(), .out = out, .alpha = weight(k)});
  if (!recording()) return Var(out);
  std::vector<GradRef> inputs{weights.ref()};
  std::vector<Tensor> kept;
  for (const Var& x : xs) {
    inputs.push_back(x.ref());
    kept.push_back(weights.needs_grad() ? x.value() : Tensor());
  }
  return record_many(
      "weighted_sum", inputs, {out},
      [inputs, kept, weight, weights = weights.ref()](const std::vector<Tensor>& dys, Grads& g) {
        const Tensor dy = dys[0], dw = g.into_zeroed(weights);
        for (size_t k = 0; k < kept.size(); ++k) {
          if (const auto dx = g.into(inputs[k + 1]))
            kernels::add({.a = dy, .b = dx.accumulate ? dx.to : Tensor(), .out = dx.to, .alpha = weight(k)});
          if (!dw.defined()) continue;
          const Tensor rows = empty({dy.rows(), 1}, wide_of(dy.dtype()), dy.device());
          kernels::head_dot({.a = kept[k], .b = dy, .s = rows});
          const Tensor one = dw.reshape({dw.numel(), 1}).slice(int64_t(k), int64_t(k) + 1).reshape({1});
          kernels::row_affine_grad({.dy = rows, .dshift = one});
        }
      })[0];
}

}  // namespace lithe
