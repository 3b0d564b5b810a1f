#include "lithe/kernels/spread.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <class T>
void run(const SpreadArgs& a) {
  const int64_t cols = cols_of(a.x), heads = a.heads;
  const T* x = pointer<const T>(a.x);
  T* out = pointer<T>(a.out);
  const float *scale = pointer<const float>(a.scale), *shift = pointer<const float>(a.shift);
  parallel(rows_of(a.x), grain_of_rows(cols * (heads + 1) * int64_t(sizeof(T))),
           [&](int64_t begin, int64_t end, int64_t) {
             for (int64_t n = begin; n < end; ++n)
               for (int64_t j = 0; j < heads; ++j) {
                 T* to = out + (n * heads + j) * cols;
                 each(cols, [&](int64_t c, auto lanes) {
                   Vec v = load(x + n * cols + c, lanes);
                   if (scale) v = v * load(scale + j * cols + c, lanes);
                   if (shift) v = v + load(shift + j * cols + c, lanes);
                   store(to + c, v, lanes);
                 });
               }
           });
}

template <class T>
void run_grad(const SpreadGradArgs& a) {
  const int64_t heads = a.heads, cols = cols_of(a.dout) / heads, rows = rows_of(a.dout);
  const T *x = pointer<const T>(a.x), *dout = pointer<const T>(a.dout);
  const float* scale = pointer<const float>(a.scale);
  if (a.dx.defined()) {
    T* dx = pointer<T>(a.dx);
    parallel(rows, grain_of_rows(cols * (heads + 1) * int64_t(sizeof(T))), [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t n = begin; n < end; ++n)
        each(cols, [&](int64_t c, auto lanes) {
          Vec sum = a.accumulate ? load(dx + n * cols + c, lanes) : Vec{};
          for (int64_t j = 0; j < heads; ++j) {
            const Vec d = load(dout + (n * heads + j) * cols + c, lanes);
            sum = sum + (scale ? d * load(scale + j * cols + c, lanes) : d);
          }
          store(dx + n * cols + c, sum, lanes);
        });
    });
  }
  if (!a.dscale.defined() && !a.dshift.defined()) return;
  // Each thread owns whole heads and adds their rows in order.
  float *dscale = pointer<float>(a.dscale), *dshift = pointer<float>(a.dshift);
  parallel(heads, grain_of_rows(rows * cols * int64_t(sizeof(T))), [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t j = begin; j < end; ++j)
      each(cols, [&](int64_t c, auto lanes) {
        Vec product{}, plain{};
        for (int64_t n = 0; n < rows; ++n) {
          const Vec d = load(dout + (n * heads + j) * cols + c, lanes);
          plain = plain + d;
          if (dscale) product = product + d * load(x + n * cols + c, lanes);
        }
        if (dscale) store(dscale + j * cols + c, load(dscale + j * cols + c, lanes) + product, lanes);
        if (dshift) store(dshift + j * cols + c, load(dshift + j * cols + c, lanes) + plain, lanes);
      });
  });
}

}  // namespace

void spread(const SpreadArgs& a) {
  by_type(a.x.dtype(), [&]<class T>() { run<T>(a); });
}
void spread_grad(const SpreadGradArgs& a) {
  by_type(a.dout.dtype(), [&]<class T>() { run_grad<T>(a); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
