#include "lithe/ops/basic.h"

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/embedding/embedding.h"
#include "lithe/ops/embedding.h"

namespace lithe {

Var add(const Var& a, const Var& b, double alpha, double beta) {
  check(a.shape() == b.shape(), "add", "shapes must be equal, got ", a.shape(), " and ", b.shape());
  Tensor out = empty_like(a.value());
  kernels::add({.a = a.value(), .b = b.value(), .out = out, .alpha = alpha, .beta = beta});
  return record("add", {a, b}, out, [a = a.ref(), b = b.ref(), alpha, beta](const Tensor& dy, Grads& g) {
    const auto send = [&](const GradRef& x, double factor) {
      if (!x) return;
      if (factor == 1) return g.give(x, dy);
      const auto dx = g.into(x);
      kernels::add({.a = dy, .b = dx.accumulate ? dx.to : Tensor(), .out = dx.to, .alpha = factor});
    };
    send(a, alpha);
    send(b, beta);
  });
}

Var mul(const Var& a, const Var& b) {
  check(a.shape() == b.shape(), "mul", "shapes must be equal, got ", a.shape(), " and ", b.shape());
  Tensor out = empty_like(a.value());
  kernels::mul({.a = a.value(), .b = b.value(), .out = out});
  return record("mul", {a, b}, out, [a, b](const Tensor& dy, Grads& g) {
    if (const auto da = g.into(a)) kernels::mul({.a = dy, .b = b.value(), .out = da.to, .accumulate = da.accumulate});
    if (const auto db = g.into(b)) kernels::mul({.a = dy, .b = a.value(), .out = db.to, .accumulate = db.accumulate});
  });
}

Var scale(const Var& a, double alpha) {
  Tensor out = empty_like(a.value());
  kernels::add({.a = a.value(), .out = out, .alpha = alpha});
  return record("scale", {a}, out, [a = a.ref(), alpha](const Tensor& dy, Grads& g) {
    const auto da = g.into(a);
    kernels::add({.a = dy, .b = da.accumulate ? da.to : Tensor(), .out = da.to, .alpha = alpha});
  });
}

Var row_affine(const Var& x, const Var& weight, const Var& bias) {
  const Tensor w = value_or_none(weight), b = value_or_none(bias);
  for (const Tensor& v : {w, b})
    check(!v.defined() || (v.numel() > 0 && x.cols() % v.numel() == 0), "row_affine", "the columns of x ", x.shape(),
          " must be a multiple of the vector's length, got ", v.shape());
  Tensor out = empty_like(x.value());
  kernels::row_affine({.x = x.value(), .scale = w, .shift = b, .out = out});
  const Tensor kept = weight.defined() && weight.needs_grad() ? x.value() : Tensor();
  return record("row_affine", {x, weight, bias}, out,
                [kept, x = x.ref(), w, weight = weight.ref(), bias = bias.ref()](const Tensor& dy, Grads& g) {
                  const auto dx = g.into(x);
                  const bool same = weight && weight == bias;  // one vector in both roles
                  const Tensor dscale = g.into_zeroed(weight),
                               dshift = same ? zeros(bias->shape, bias->dtype, bias->device) : g.into_zeroed(bias);
                  kernels::row_affine_grad({.x = kept,
                                            .scale = w,
                                            .dy = dy,
                                            .dx = dx.to,
                                            .dscale = dscale,
                                            .dshift = dshift,
                                            .accumulate = dx.accumulate});
                  if (same) g.give(bias, dshift);
                });
}

Var cast(const Var& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor out = empty(x.shape(), dtype, x.device());
  kernels::add({.a = x.value(), .out = out});
  return record("cast", {x}, out, [x = x.ref()](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::add({.a = dy, .b = dx.accumulate ? dx.to : Tensor(), .out = dx.to});
  });
}

Var dropout(const Var& x, double p, const RandomKey& key) {
  check(p >= 0 && p < 1, "dropout", "p must be in [0, 1), got ", p);
  if (p == 0 || !training()) return x;
  Tensor out = empty_like(x.value());
  kernels::dropout({.x = x.value(), .y = out, .p = p, .key = key});
  return record("dropout", {x}, out, [x = x.ref(), p, key](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::dropout({.x = dy, .y = dx.to, .p = p, .key = key, .accumulate = dx.accumulate});
  });
}

Var sum(const Var& x) {
  Tensor out = empty({1}, x.dtype(), x.device());
  if (!out.is_meta()) {
    double total = 0;
    for (int64_t i = 0; i < x.value().numel(); ++i) total += value_at(x.value(), i);
    set_value(out, 0, total);
  }
  return record("sum", {x}, out, [x = x.ref()](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    if (dx.to.is_meta()) return;
    const double d = value_at(dy, 0);
    for (int64_t i = 0; i < dx.to.numel(); ++i) set_value(dx.to, i, d + (dx.accumulate ? value_at(dx.to, i) : 0));
  });
}

Var reshape(const Var& x, const Shape& shape) {
  return record("reshape", {x}, x.value().reshape(shape), [x = x.ref()](const Tensor& dy, Grads& g) { g.give(x, dy); });
}

Var slice_rows(const Var& x, int64_t begin, int64_t end) {
  check(0 <= begin && begin <= end && end <= x.rows(), "slice_rows", "rows ", begin, " to ", end, " of ", x.shape());
  return record("slice_rows", {x}, x.value().slice(begin, end), [x = x.ref(), begin, end](const Tensor& dy, Grads& g) {
    const Tensor to = g.into_zeroed(x).slice(begin, end);
    kernels::add({.a = dy, .b = to, .out = to});
  });
}

Var concatenate_rows(const std::vector<Var>& parts) {
  check(!parts.empty(), "concatenate_rows", "needs at least one part");
  int64_t rows = 0;
  std::vector<GradRef> inputs;
  for (const Var& part : parts) {
    check(part.cols() == parts[0].cols() && part.dtype() == parts[0].dtype(), "concatenate_rows",
          "parts must agree in columns and dtype, got ", part.dtype(), part.shape(), " beside ", parts[0].dtype(),
          parts[0].shape());
    rows += part.rows();
    inputs.push_back(part.ref());
  }
  const Tensor out = empty({rows, parts[0].cols()}, parts[0].dtype(), parts[0].device());
  std::vector<int64_t> begins{0};
  for (const Var& part : parts) {
    begins.push_back(begins.back() + part.rows());
    kernels::add({.a = part.value(), .out = out.slice(begins[begins.size() - 2], begins.back())});
  }
  return record_many("concatenate_rows", inputs, {out}, [inputs, begins](const std::vector<Tensor>& dys, Grads& g) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (const auto dx = g.into(inputs[i]))
        kernels::add(
            {.a = dys[0].slice(begins[i], begins[i + 1]), .b = dx.accumulate ? dx.to : Tensor(), .out = dx.to});
  })[0];
}

Var pick_rows(const Var& x, const std::vector<int64_t>& rows) {
  const int64_t n = int64_t(rows.size());
  Tensor ids = empty({n}, DType::i32, x.device());
  for (int64_t i = 0; i < n; ++i) {
    check(rows[size_t(i)] >= 0 && rows[size_t(i)] < x.rows(), "pick_rows", "row ", rows[size_t(i)], " of ", x.shape());
    if (!ids.is_meta()) ids.data<int32_t>()[i] = int32_t(rows[size_t(i)]);
  }
  Tensor out = empty({n, x.cols()}, x.dtype(), x.device());
  kernels::gather({.table = x.value(), .ids = ids, .out = out});
  return record("pick_rows", {x}, out, [x = x.ref(), ids](const Tensor& dy, Grads& g) { give_to_rows(g, x, dy, ids); });
}

}  // namespace lithe
