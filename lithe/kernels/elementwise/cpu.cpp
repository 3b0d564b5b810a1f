// One pass over memory each; see elementwise.h and reference.h for what they compute.
#include "lithe/kernels/elementwise/elementwise.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"
#include "lithe/kernels/elementwise/cpu.h"
#include "lithe/kernels/elementwise/cpu_activation.h"
#include "lithe/kernels/elementwise/cpu_philox.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// Calls f(i, c, lanes) over a matrix, i the position in it and c the column.
template <class F>
[[gnu::always_inline]] inline void over_rows(int64_t rows, int64_t cols, int64_t bytes, F&& f) {
  parallel(rows, grain_of_rows(cols * bytes), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t n = begin; n < end; ++n) each(cols, [=](int64_t c, auto lanes) { f(n * cols + c, c, lanes); });
  });
}
/// Calls f(i, lanes) over n elements.
template <class F>
[[gnu::always_inline]] inline void over_elements(int64_t n, int64_t bytes, F&& f) {
  parallel_elements(n, bytes, [=](int64_t begin, int64_t count) {
    each(count, [=](int64_t i, auto lanes) { f(begin + i, lanes); });
  });
}

template <class T, Activation kind>
void activation_of(const ActivationArgs& a) {
  const T* x = pointer<T>(a.x);
  const Written<T> y = written<T>(a.y, a.bias ? cols_of(a.x) : kLanes);
  if (const float* bias = pointer<float>(a.bias))
    over_rows(rows_of(a.x), cols_of(a.x), 2 * sizeof(T), [=](int64_t i, int64_t c, auto lanes) {
      y(i, evaluate_for<kind, T>(load(x + i, lanes) + load(bias + c, lanes)).value, lanes);
    });
  else
    over_elements(a.x.numel(), 2 * sizeof(T),
                  [=](int64_t i, auto lanes) { y(i, evaluate_for<kind, T>(load(x + i, lanes)).value, lanes); });
}

template <class T, Activation kind, bool accumulate>
void activation_grad_of(const ActivationGradArgs& a) {
  const T *x = pointer<T>(a.x), *dy = pointer<T>(a.dy);
  const Written<T> dx = written<T>(a.dx, a.bias ? cols_of(a.x) : kLanes);
  if (const float* bias = pointer<float>(a.bias))
    over_rows(rows_of(a.x), cols_of(a.x), 3 * sizeof(T), [=](int64_t i, int64_t c, auto lanes) {
      put<accumulate>(
          dx, i, evaluate_for<kind, T>(load(x + i, lanes) + load(bias + c, lanes)).slope * load(dy + i, lanes), lanes);
    });
  else
    over_elements(a.x.numel(), 3 * sizeof(T), [=](int64_t i, auto lanes) {
      put<accumulate>(dx, i, evaluate_for<kind, T>(load(x + i, lanes)).slope * load(dy + i, lanes), lanes);
    });
}

template <class T, Activation kind>
void gated_of(const GatedArgs& a) {
  const T *gate = pointer<T>(a.gate), *up = pointer<T>(a.up);
  const Written<T> y = written<T>(a.y);
  over_elements(a.gate.numel(), 3 * sizeof(T), [=](int64_t i, auto lanes) {
    y(i, evaluate_for<kind, T>(load(gate + i, lanes)).value * load(up + i, lanes), lanes);
  });
}

template <class T, Activation kind>
void gated_grad_of(const GatedGradArgs& a) {
  const T *gate = pointer<T>(a.gate), *up = pointer<T>(a.up), *dy = pointer<T>(a.dy);
  const Written<T> dgate = written<T>(a.dgate), dup = written<T>(a.dup);
  over_elements(a.gate.numel(), 5 * sizeof(T), [=](int64_t i, auto lanes) {
    const Vec d = load(dy + i, lanes), u = load(up + i, lanes);
    const Activated f = evaluate_for<kind, T>(load(gate + i, lanes));
    dgate(i, f.slope * u * d, lanes);
    dup(i, f.value * d, lanes);
  });
}

template <class A, class B, class O, bool has_b>
void add_of(const AddArgs& args) {
  const A* a = pointer<A>(args.a);
  const B* b = pointer<B>(args.b);
  const Written<O> out = written<O>(args.out);
  const float alpha = float(args.alpha), beta = float(args.beta);
  over_elements(args.a.numel(), sizeof(A) + sizeof(B) + sizeof(O), [=](int64_t i, auto lanes) {
    // Both are there before they are multiplied: which product is fused with the sum is then the same at any place.
    const Vec x = load(a + i, lanes);
    if constexpr (has_b) {
      const Vec y = load(b + i, lanes);
      out(i, alpha * x + beta * y, lanes);
    } else {
      out(i, alpha * x, lanes);
    }
  });
}

template <class T, bool accumulate>
void mul_of(const MulArgs& args) {
  const T *a = pointer<T>(args.a), *b = pointer<T>(args.b);
  const Written<T> out = written<T>(args.out);
  over_elements(args.a.numel(), 3 * sizeof(T), [=](int64_t i, auto lanes) {
    put<accumulate>(out, i, load(a + i, lanes) * load(b + i, lanes), lanes);
  });
}

template <class T, bool has_scale, bool has_shift>
void row_affine_of(const RowAffineArgs& a) {
  const T* x = pointer<T>(a.x);
  const float *scale = pointer<float>(a.scale), *shift = pointer<float>(a.shift);
  const int64_t period = has_scale ? a.scale.numel() : a.shift.numel();
  const Written<T> out = written<T>(a.out, period);
  over_rows(a.x.numel() / period, period, 2 * sizeof(T), [=](int64_t i, int64_t c, auto lanes) {
    Vec v = load(x + i, lanes);
    if constexpr (has_scale) v *= load(scale + c, lanes);
    if constexpr (has_shift) v += load(shift + c, lanes);
    out(i, v, lanes);
  });
}

template <class T, bool has_scale, bool accumulate>
void scaled_rows_of(const RowAffineGradArgs& a, int64_t period) {
  const T* dy = pointer<T>(a.dy);
  const float* scale = pointer<float>(a.scale);
  const Written<T> dx = written<T>(a.dx, period);
  over_rows(a.dy.numel() / period, period, 2 * sizeof(T), [=](int64_t i, int64_t c, auto lanes) {
    Vec v = load(dy + i, lanes);
    if constexpr (has_scale) v *= load(scale + c, lanes);
    put<accumulate>(dx, i, v, lanes);
  });
}

/// partial[part, 0, c] = sum over the part's rows of x dy (when dscale is wanted), partial[part, 1, c] of dy.
template <class T, bool with_x>
void column_sums_of(const RowAffineGradTask& task, int64_t period) {
  const RowAffineGradArgs& a = task.args;
  const T *x = pointer<T>(a.x), *dy = pointer<T>(a.dy);
  float *dscale = pointer<float>(a.dscale), *dshift = pointer<float>(a.dshift), *partial = task.partial;
  const int64_t rows = a.dy.numel() / period, grain = grain_of_rows(2 * period * int64_t(sizeof(T)));
  parallel(rows, grain, [=](int64_t begin, int64_t end, int64_t part) {
    float *products = partial + 2 * part * period, *sums = products + period;
    __builtin_memset(products, 0, size_t(2 * period) * sizeof(float));
    for (int64_t n = begin; n < end; ++n)
      each(period, [=](int64_t c, auto lanes) {
        const Vec d = load(dy + n * period + c, lanes);
        if constexpr (with_x)
          store(products + c, load(products + c, lanes) + load(x + n * period + c, lanes) * d, lanes);
        store(sums + c, load(sums + c, lanes) + d, lanes);
      });
  });
  for (int64_t part = 0, parts = rows ? parts_of(rows, grain) : 0; part < parts; ++part)
    each(period, [=](int64_t c, auto lanes) {
      const float* products = partial + 2 * part * period + c;
      if (dscale) store(dscale + c, load(dscale + c, lanes) + load(products, lanes), lanes);
      if (dshift) store(dshift + c, load(dshift + c, lanes) + load(products + period, lanes), lanes);
    });
}

template <class T, bool accumulate>
void dropout_of(const DropoutArgs& a) {
  const T* x = pointer<T>(a.x);
  const Written<T> y = written<T>(a.y);
  const Philox philox(a.key);
  const float scale = float(1 / (1 - a.p));
  // word >= p 2^32 for a whole word is word >= ceil(p 2^32)
  const uint32_t threshold = uint32_t(__builtin_ceil(a.p * 0x1p32));
  const auto kept = [=](Vec v, WordVec word) { return word >= threshold ? v * scale : Vec{}; };
  parallel_elements(a.x.numel(), 2 * sizeof(T), [=](int64_t begin, int64_t count) {
    const int64_t end = begin + count;
    for (int64_t i = begin; i < end; i += 2 * kLanes) {
      const RandomWords words = philox.words(uint64_t(i) / 4);
      const T* from = x + i;
      each(end - i < 2 * kLanes ? end - i : 2 * kLanes, [=](int64_t at, auto lanes) {
        put<accumulate>(y, i + at, kept(load(from + at, lanes), at ? words.second : words.first), lanes);
      });
    }
  });
}

}  // namespace

void activation(const ActivationArgs& a) {
  by_type(a.x.dtype(), [&]<class T>() { by_kind(a.kind, [&]<Activation kind>() { activation_of<T, kind>(a); }); });
}

void activation_grad(const ActivationGradArgs& a) {
  by_type(a.x.dtype(), [&]<class T>() {
    by_kind(a.kind, [&]<Activation kind>() {
      by_flag(a.accumulate, [&]<bool accumulate>() { activation_grad_of<T, kind, accumulate>(a); });
    });
  });
}

void gated(const GatedArgs& a) {
  by_type(a.gate.dtype(), [&]<class T>() { by_kind(a.kind, [&]<Activation kind>() { gated_of<T, kind>(a); }); });
}

void gated_grad(const GatedGradArgs& a) {
  by_type(a.gate.dtype(), [&]<class T>() { by_kind(a.kind, [&]<Activation kind>() { gated_grad_of<T, kind>(a); }); });
}

void add(const AddArgs& a) {
  by_type(a.a.dtype(), [&]<class A>() {
    by_type(a.out.dtype(), [&]<class O>() {
      if (!a.b)
        add_of<A, A, O, false>(a);
      else
        by_type(a.b.dtype(), [&]<class B>() { add_of<A, B, O, true>(a); });
    });
  });
}

void mul(const MulArgs& a) {
  by_type(a.a.dtype(), [&]<class T>() { by_flag(a.accumulate, [&]<bool accumulate>() { mul_of<T, accumulate>(a); }); });
}

void row_affine(const RowAffineArgs& a) {
  by_type(a.x.dtype(), [&]<class T>() {
    if (!a.shift)
      row_affine_of<T, true, false>(a);
    else
      by_flag(a.scale.defined(), [&]<bool has_scale>() { row_affine_of<T, has_scale, true>(a); });
  });
}

void row_affine_grad(const RowAffineGradTask& task) {
  const RowAffineGradArgs& a = task.args;
  const Tensor& sized = a.scale ? a.scale : a.dscale ? a.dscale : a.dshift ? a.dshift : a.dy;
  const int64_t period = cols_of(sized);
  if (period == 0) return;
  by_type(a.dy.dtype(), [&]<class T>() {
    // The sums come first: dx may be dy.
    if (a.dscale || a.dshift)
      by_flag(a.dscale.defined(), [&]<bool with_x>() { column_sums_of<T, with_x>(task, period); });
    if (a.dx)
      by_flag(a.scale.defined(), [&]<bool has_scale>() {
        by_flag(a.accumulate, [&]<bool accumulate>() { scaled_rows_of<T, has_scale, accumulate>(a, period); });
      });
  });
}

void dropout(const DropoutArgs& a) {
  by_type(a.x.dtype(),
          [&]<class T>() { by_flag(a.accumulate, [&]<bool accumulate>() { dropout_of<T, accumulate>(a); }); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
