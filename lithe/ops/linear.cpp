#include "lithe/ops/linear.h"

#include "lithe/kernels/gemm/gemm.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/weight_product.h"

namespace lithe {
namespace {

void check_linear(const Var& x, const Var& w, const Var& bias, bool transposed) {
  check(w.shape().rank() == 2, "linear", "the weight must be a matrix, got ", w.shape());
  check(x.cols() == w.dim(transposed ? 1 : 0), "linear", "x ", x.shape(), " does not fit the weight ", w.shape(),
        transposed ? " (transposed)" : "");
  if (bias.defined())
    check(bias.value().numel() == w.dim(transposed ? 0 : 1), "linear", "bias must be [", w.dim(transposed ? 0 : 1),
          "] to match the weight ", w.shape(), ", got ", bias.shape());
}

Tensor matrix(const Tensor& x) { return x.reshape({x.rows(), x.cols()}); }

// Room for x w.
Tensor product_of(const Tensor& x, const Var& w, bool transposed) {
  return empty({x.rows(), w.dim(transposed ? 0 : 1)}, x.dtype(), x.device());
}

Tensor product(const Tensor& x, const Var& w, const Var& bias, bool transposed) {
  const WeightProduct p{w, value_or_none(bias), product_of(x, w, transposed), transposed};
  weight_products(matrix(x), {&p, 1});
  return p.y;
}

void input_gradient(const Tensor& dy, const Var& w, bool transposed, const Grads::Into& dx) {
  if (dx) InputGradient(w, transposed)(dy, matrix(dx.to), dx.accumulate);
}

// dw (+)= x^T dy
void weight_gradient(const Tensor& x, const Tensor& dy, bool transposed, const Grads::Into& dw) {
  if (!dw) return;
  kernels::gemm({.a = transposed ? dy : x,
                 .b = transposed ? x : dy,
                 .c = dw.to,
                 .transpose_a = true,
                 .accumulate = dw.accumulate});
}

void bias_gradient(const Tensor& dy, const Tensor& db) {
  if (db.defined()) kernels::row_affine_grad({.dy = dy, .dshift = db});
}

Tensor activated(kernels::Activation kind, const Var& x, const Var& bias) {
  Tensor y = empty_like(x.value());
  kernels::activation({.kind = kind, .x = x.value(), .bias = value_or_none(bias), .y = y});
  return y;
}

Tensor gated_product(kernels::Activation kind, const Var& gate, const Var& up) {
  Tensor y = empty_like(up.value());
  kernels::gated({.kind = kind, .gate = gate.value(), .up = up.value(), .y = y});
  return y;
}

Var record_linear(const Var& x, const Var& w, const Var& bias, bool transposed, const Tensor& y) {
  if (!recording()) return y;
  const Tensor kept = w.needs_grad() ? x.value() : Tensor();
  return record("linear", {x, w, bias}, y,
                [kept, w, x = x.ref(), bias = bias.ref(), transposed](const Tensor& dy, Grads& g) {
                  if (w.needs_grad()) weight_gradient(matrix(kept), dy, transposed, g.into(w));
                  bias_gradient(dy, g.into_zeroed(bias));
                  input_gradient(dy, w, transposed, g.into(x));
                });
}

// y + scale (x a) b, in the type of the rows.
Var with_update(const Var& x, const Var& w, bool transposed, const Var& y) {
  const LowRank* const low = w.low_rank();
  if (!low) return y;
  check(!transposed, "linear", "a low-rank adapter of a weight ", w.shape(), " that is read transposed is not known");
  const auto in_type = [&](const Var& of) { return of.dtype() == x.dtype() ? of : cast(of, x.dtype()); };
  return add(y, linear(linear(x, in_type(low->a)), in_type(low->b)), 1, low->scale);
}

// Activations are not fused into such products.
bool stands_alone(const Var& w) { return w.rounded_inputs() || w.low_rank(); }

}  // namespace

Var linear(const Var& given, const Var& w, const Var& bias, bool transposed) {
  if (w.low_rank()) return with_update(given, w, transposed, linear(given, w.without_low_rank(), bias, transposed));
  check_linear(given, w, bias, transposed);
  const Var x = product_input(given, w);
  return record_linear(x, w, bias, transposed, product(x.value(), w, bias, transposed));
}

std::vector<Var> linear_each(const Var& given, const std::vector<LinearMap>& maps) {
  const Var x = maps.empty() ? given : product_input(given, maps[0].w);
  std::vector<Var> weights;
  for (const LinearMap& map : maps) weights.push_back(map.w.without_low_rank());
  std::vector<WeightProduct> products;
  for (size_t i = 0; i < maps.size(); ++i) {
    const Var &w = weights[i], &bias = maps[i].bias;
    check_linear(x, w, bias, false);
    check(
        w.rounded_inputs() == weights[0].rounded_inputs(), "linear",
        "maps of the same rows read them rounded alike, or none does; keep none of them, or all (train.rounding.keep)");
    products.push_back({w, value_or_none(bias), product_of(x.value(), w, false)});
  }
  weight_products(matrix(x.value()), products);
  std::vector<Var> out;
  for (size_t i = 0; i < maps.size(); ++i)
    out.push_back(
        with_update(given, maps[i].w, false, record_linear(x, weights[i], maps[i].bias, false, products[i].y)));
  return out;
}

Var activate(kernels::Activation kind, const Var& x, const Var& bias) {
  Tensor y = activated(kind, x, bias);
  if (!recording()) return y;
  return record("activate", {x, bias}, y, [kind, x, bias](const Tensor& dy, Grads& g) {
    if (!bias.defined() || !bias.needs_grad()) {
      if (const auto dx = g.into(x))
        kernels::activation_grad({.kind = kind,
                                  .x = x.value(),
                                  .bias = value_or_none(bias),
                                  .dy = dy,
                                  .dx = dx.to,
                                  .accumulate = dx.accumulate});
      return;
    }
    Tensor dx = empty_like(dy);
    kernels::activation_grad({.kind = kind, .x = x.value(), .bias = bias.value(), .dy = dy, .dx = dx});
    bias_gradient(dx, g.into_zeroed(bias));
    g.give(x, dx);
  });
}

Var gated(kernels::Activation kind, const Var& gate, const Var& up) {
  check(gate.shape() == up.shape(), "gated", "gate and up must have equal shapes, got ", gate.shape(), " and ",
        up.shape());
  Tensor y = gated_product(kind, gate, up);
  if (!recording()) return y;
  return record("gated", {gate, up}, y, [kind, gate, up](const Tensor& dy, Grads& g) {
    Tensor dgate = empty_like(dy), dup = empty_like(dy);
    kernels::gated_grad({.kind = kind, .gate = gate.value(), .up = up.value(), .dy = dy, .dgate = dgate, .dup = dup});
    g.give(gate, dgate);
    g.give(up, dup);
  });
}

Var activated_linear(kernels::Activation kind, const Var& x, const Var& bias, const Var& w, const Var& out_bias) {
  check_linear(x, w, out_bias, false);
  if (stands_alone(w)) return linear(activate(kind, x, bias), w, out_bias);
  Tensor y = product(activated(kind, x, bias), w, out_bias, false);
  if (!recording()) return y;
  return record(
      "activated_linear", {x, bias, w, out_bias}, y,
      [kind, x, bias, w, out_bias = out_bias.ref()](const Tensor& dy, Grads& g) {
        bias_gradient(dy, g.into_zeroed(out_bias));
        Tensor da;
        {
          const Tensor a = activated(kind, x, bias);
          if (w.needs_grad()) weight_gradient(a, dy, false, g.into(w));
          da = a;  // its memory is free for the gradient now
        }
        if (!x.needs_grad() && !bias.needs_grad()) return;
        input_gradient(dy, w, false, {da, false});
        kernels::activation_grad({.kind = kind, .x = x.value(), .bias = value_or_none(bias), .dy = da, .dx = da});
        bias_gradient(da, g.into_zeroed(bias));
        g.give(x, da);
      });
}

Var gated_linear(kernels::Activation kind, const Var& gate, const Var& up, const Var& w, const Var& out_bias) {
  check(gate.shape() == up.shape(), "gated_linear", "gate and up must have equal shapes, got ", gate.shape(), " and ",
        up.shape());
  check_linear(up, w, out_bias, false);
  if (stands_alone(w)) return linear(gated(kind, gate, up), w, out_bias);
  Tensor y = product(gated_product(kind, gate, up), w, out_bias, false);
  if (!recording()) return y;
  return record("gated_linear", {gate, up, w, out_bias}, y,
                [kind, gate, up, w, bias = out_bias.ref()](const Tensor& dy, Grads& g) {
                  bias_gradient(dy, g.into_zeroed(bias));
                  Tensor da = gated_product(kind, gate, up);
                  if (w.needs_grad()) weight_gradient(da, dy, false, g.into(w));
                  if (!gate.needs_grad() && !up.needs_grad()) return;
                  input_gradient(dy, w, false, {da, false});
                  Tensor dgate = empty_like(da);
                  kernels::gated_grad(
                      {.kind = kind, .gate = gate.value(), .up = up.value(), .dy = da, .dgate = dgate, .dup = da});
                  g.give(gate, dgate);
                  g.give(up, da);
                });
}

}  // namespace lithe
