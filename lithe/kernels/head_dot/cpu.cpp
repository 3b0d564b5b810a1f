#include "lithe/kernels/head_dot/head_dot.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <class T>
void run(const HeadDotArgs& args) {
  const int64_t dim = cols_of(args.a) / cols_of(args.s);
  const T *a = pointer<const T>(args.a), *b = pointer<const T>(args.b);
  float* s = pointer<float>(args.s);
  const float scale = float(args.scale);
  parallel(args.s.numel(), grain_of_rows(2 * dim * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i)
      s[i] = scale * sum(total(
                         dim, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
                           return load(a + i * dim + c, lanes) * load(b + i * dim + c, lanes);
                         }));
  });
}

template <class T>
void run_grad(const HeadDotGradArgs& args) {
  const int64_t dim = cols_of(args.a) / cols_of(args.ds);
  const T *a = pointer<const T>(args.a), *b = pointer<const T>(args.b);
  const float* ds = pointer<const float>(args.ds);
  T *da = pointer<T>(args.da), *db = pointer<T>(args.db);
  const bool add_da = args.accumulate_da, add_db = args.accumulate_db;
  const float scale = float(args.scale);
  parallel(args.ds.numel(), grain_of_rows(4 * dim * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const float factor = scale * ds[i];
      each(dim, [&](int64_t c, auto lanes) {
        const int64_t at = i * dim + c;
        const Vec x = load(a + at, lanes), y = load(b + at, lanes);
        if (da) store(da + at, factor * y + (add_da ? load(da + at, lanes) : Vec{}), lanes);
        if (db) store(db + at, factor * x + (add_db ? load(db + at, lanes) : Vec{}), lanes);
      });
    }
  });
}

}  // namespace

void head_dot(const HeadDotArgs& args) {
  by_type(args.a.dtype(), [&]<class T>() { run<T>(args); });
}
void head_dot_grad(const HeadDotGradArgs& args) {
  by_type(args.a.dtype(), [&]<class T>() { run_grad<T>(args); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
