#include "lithe/kernels/spread/spread.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kRows = 64;  // rows whose gradients are added up at a time
constexpr int64_t kAhead = 8;  // rows from the one in work to what is asked for

template <class T>
void run(const SpreadArgs& a) {
  const int64_t cols = cols_of(a.x), heads = a.heads;
  const T* x = pointer<const T>(a.x);
  const Written<T> out = written<T>(a.out, cols);
  const float *scale = pointer<const float>(a.scale), *shift = pointer<const float>(a.shift);
  parallel(rows_of(a.x), grain_of_rows(cols * (heads + 1) * int64_t(sizeof(T))),
           [=](int64_t begin, int64_t end, int64_t) {
             for (int64_t n = begin; n < end; ++n)
               for (int64_t j = 0; j < heads; ++j) {
                 const int64_t first = (n * heads + j) * cols;
                 each(cols, [=](int64_t c, auto lanes) {
                   Vec v = load(x + n * cols + c, lanes);
                   if (scale) v = v * load(scale + j * cols + c, lanes);
                   if (shift) v = v + load(shift + j * cols + c, lanes);
                   out(first + c, v, lanes);
                 });
               }
           });
}

template <class T>
void run_grad(const SpreadGradArgs& a) {
  const int64_t heads = a.heads, cols = cols_of(a.dout) / heads, rows = rows_of(a.dout);
  const T *x = pointer<const T>(a.x), *dout = pointer<const T>(a.dout);
  const float* scale = pointer<const float>(a.scale);
  const bool accumulate = a.accumulate;
  if (a.dx.defined()) {
    T* dx = pointer<T>(a.dx);
    parallel(rows, grain_of_rows(cols * (heads + 1) * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
      for (int64_t n = begin; n < end; ++n)
        each(cols, [=](int64_t c, auto lanes) {
          Vec sum = accumulate ? load(dx + n * cols + c, lanes) : Vec{};
          for (int64_t j = 0; j < heads; ++j) {
            const T* from = dout + (n * heads + j) * cols + c;
            __builtin_prefetch(from + kAhead * heads * cols);
            const Vec d = load(from, lanes);
            sum = sum + (scale ? d * load(scale + j * cols + c, lanes) : d);
          }
          store(dx + n * cols + c, sum, lanes);
        });
    });
  }
  if (!a.dscale.defined() && !a.dshift.defined()) return;
  // Each thread owns whole heads and adds their rows in order: a block of rows, all channels of it, and asks for the
  // next.
  float *dscale = pointer<float>(a.dscale), *dshift = pointer<float>(a.dshift);
  parallel(heads, grain_of_rows(rows * cols * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t first = 0; first < rows; first += kRows) {
      const int64_t stop = first + kRows < rows ? first + kRows : rows;
      for (int64_t j = begin; j < end; ++j) {
        const auto add_rows = [=]<int R>(int64_t c, auto lanes) __attribute__((always_inline)) {
          float *product_at = dscale + j * cols + c, *plain_at = dshift + j * cols + c;
          Vec products[R] = {}, plains[R] = {};
          for (int64_t n = first; n < stop; ++n)
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r) {
              const T* from = dout + (n * heads + j) * cols + c + r * kLanes;
              __builtin_prefetch(from + kRows * heads * cols);
              const Vec d = load(from, lanes);
              plains[r] += d;
              if (dscale) products[r] += d * load(x + n * cols + c + r * kLanes, lanes);
            }
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r) {
            const int64_t at = r * kLanes;
            if (dscale) store(product_at + at, load(product_at + at, lanes) + products[r], lanes);
            if (dshift) store(plain_at + at, load(plain_at + at, lanes) + plains[r], lanes);
          }
        };
        int64_t c = 0;
        for (; c + 4 * kLanes <= cols; c += 4 * kLanes) add_rows.template operator()<4>(c, All{});
        each(cols - c, [=](int64_t rest, auto lanes) { add_rows.template operator()<1>(c + rest, lanes); });
      }
    }
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
