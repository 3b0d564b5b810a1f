#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/elementwise/cpu_activation.h"
#include "lithe/kernels/recurrent_cell/recurrent_cell.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

[[gnu::always_inline]] inline Vec tanh(Vec x) { return evaluate<Activation::tanh>(x).value; }

/// Calls f(i, at, lanes) for the numbers i of hidden rows, whose first gate stands at `at`.
template <class F>
[[gnu::always_inline]] inline void each_number(const Tensor& hidden, int64_t gates, F&& f) {
  const int64_t d = cols_of(hidden);
  parallel(rows_of(hidden), grain_of_rows(d * (gates + 2) * 4), [=, own = f](int64_t begin, int64_t end, int64_t) {
    for (int64_t row = begin; row < end; ++row)
      each(
          d, [&](int64_t c, auto lanes)
                 __attribute__((always_inline)) { own(row * d + c, row * gates * d + c, lanes); });
  });
}

template <class T, RecurrentCell kKind>
void run(const RecurrentCellArgs& a) {
  const int64_t d = cols_of(a.hidden);
  T *x = pointer<T>(a.gates), *h = pointer<T>(a.hidden), *kept = pointer<T>(a.kept);
  const T *y = pointer<const T>(a.recurrent), *before = pointer<const T>(a.before);
  const float* old = pointer<const float>(a.cell_before);
  float* cell = pointer<float>(a.cell);
  each_number(
      a.hidden, gates_of(kKind), [=](int64_t i, int64_t at, auto lanes) __attribute__((always_inline)) {
        if constexpr (kKind == RecurrentCell::linear) store(h + i, load(x + at, lanes), lanes);
        if constexpr (kKind == RecurrentCell::elman) {
          const Vec value = tanh(load(x + at, lanes));
          store(x + at, value, lanes);
          store(h + i, value, lanes);
        }
        if constexpr (kKind == RecurrentCell::lstm) {
          const Vec in = sigmoid(load(x + at, lanes)), keep = sigmoid(load(x + at + d, lanes)),
                    g = tanh(load(x + at + 2 * d, lanes)), out = sigmoid(load(x + at + 3 * d, lanes));
          const Vec c = keep * load(old + i, lanes) + in * g;
          store(cell + i, c, lanes);
          store(h + i, out * tanh(c), lanes);
          store(x + at, in, lanes);
          store(x + at + d, keep, lanes);
          store(x + at + 2 * d, g, lanes);
          store(x + at + 3 * d, out, lanes);
        }
        if constexpr (kKind == RecurrentCell::gru) {
          const Vec r = sigmoid(load(x + at, lanes) + load(y + at, lanes)),
                    z = sigmoid(load(x + at + d, lanes) + load(y + at + d, lanes)), own = load(y + at + 2 * d, lanes),
                    n = tanh(load(x + at + 2 * d, lanes) + r * own);
          store(kept + i, own, lanes);
          store(h + i, (1.0f - z) * n + z * load(before + i, lanes), lanes);
          store(x + at, r, lanes);
          store(x + at + d, z, lanes);
          store(x + at + 2 * d, n, lanes);
        }
      });
}

template <class T, RecurrentCell kKind>
void run_grad(const RecurrentCellGradArgs& grads) {
  const RecurrentCellArgs& a = grads.forward;
  const int64_t d = cols_of(a.hidden);
  const T *x = pointer<const T>(a.gates), *before = pointer<const T>(a.before), *kept = pointer<const T>(a.kept),
          *dhidden = pointer<const T>(grads.dhidden);
  T *dx = pointer<T>(grads.dgates), *dy = pointer<T>(grads.drecurrent), *dbefore = pointer<T>(grads.dbefore);
  const float *old = pointer<const float>(a.cell_before), *cell = pointer<const float>(a.cell);
  float* dcell = pointer<float>(grads.dcell);
  each_number(
      a.hidden, gates_of(kKind), [=](int64_t i, int64_t at, auto lanes) __attribute__((always_inline)) {
        const Vec dh = load(dhidden + i, lanes);
        if constexpr (kKind == RecurrentCell::linear) store(dx + at, dh, lanes);
        if constexpr (kKind == RecurrentCell::elman) {
          const Vec value = load(x + at, lanes);
          store(dx + at, dh * (1.0f - value * value), lanes);
        }
        if constexpr (kKind == RecurrentCell::lstm) {
          const Vec in = load(x + at, lanes), keep = load(x + at + d, lanes), g = load(x + at + 2 * d, lanes),
                    out = load(x + at + 3 * d, lanes), t = tanh(load(cell + i, lanes)),
                    dc = load(dcell + i, lanes) + dh * out * (1.0f - t * t);
          store(dx + at, dc * g * in * (1.0f - in), lanes);
          store(dx + at + d, dc * load(old + i, lanes) * keep * (1.0f - keep), lanes);
          store(dx + at + 2 * d, dc * in * (1.0f - g * g), lanes);
          store(dx + at + 3 * d, dh * t * out * (1.0f - out), lanes);
          store(dcell + i, dc * keep, lanes);
        }
        if constexpr (kKind == RecurrentCell::gru) {
          const Vec r = load(x + at, lanes), z = load(x + at + d, lanes), n = load(x + at + 2 * d, lanes);
          const Vec dn = dh * (1.0f - z) * (1.0f - n * n), dr = dn * load(kept + i, lanes) * r * (1.0f - r),
                    dz = dh * (load(before + i, lanes) - n) * z * (1.0f - z);
          store(dx + at, dr, lanes);
          store(dy + at, dr, lanes);
          store(dx + at + d, dz, lanes);
          store(dy + at + d, dz, lanes);
          store(dx + at + 2 * d, dn, lanes);
          store(dy + at + 2 * d, dn * r, lanes);
          if (dbefore) store(dbefore + i, load(dbefore + i, lanes) + dh * z, lanes);
        }
      });
}

template <class F>
[[gnu::always_inline]] inline void by_kind(RecurrentCell kind, F&& f) {
  switch (kind) {
    case RecurrentCell::linear: return f.template operator()<RecurrentCell::linear>();
    case RecurrentCell::elman: return f.template operator()<RecurrentCell::elman>();
    case RecurrentCell::lstm: return f.template operator()<RecurrentCell::lstm>();
    case RecurrentCell::gru: return f.template operator()<RecurrentCell::gru>();
  }
}

}  // namespace

void recurrent_cell(const RecurrentCellArgs& a) {
  by_type(a.hidden.dtype(), [&]<class T>() { by_kind(a.kind, [&]<RecurrentCell kKind>() { run<T, kKind>(a); }); });
}
void recurrent_cell_grad(const RecurrentCellGradArgs& g) {
  by_type(g.forward.hidden.dtype(),
          [&]<class T>() { by_kind(g.forward.kind, [&]<RecurrentCell kKind>() { run_grad<T, kKind>(g); }); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
