// The specification of head_dot.h: scalar, serial, in double.
#pragma once

#include "lithe/kernels/head_dot/head_dot.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

// s[n,h] = scale sum_c a[n,h,c] b[n,h,c]
template <class T>
void head_dot(const HeadDotArgs& args) {
  const int64_t heads = args.s.cols(), dim = args.a.cols() / heads;
  const T *a = args.a.data<T>(), *b = args.b.data<T>();
  Wide<T>* s = args.s.data<Wide<T>>();
  for (int64_t i = 0; i < args.s.numel(); ++i) {
    double sum = 0;
    for (int64_t c = 0; c < dim; ++c) sum += double(a[i * dim + c]) * double(b[i * dim + c]);
    s[i] = Wide<T>(args.scale * sum);
  }
}

// da[n,h,c] (+)= scale ds[n,h] b[n,h,c],   db[n,h,c] (+)= scale ds[n,h] a[n,h,c]
template <class T>
void head_dot_grad(const HeadDotGradArgs& args) {
  const int64_t heads = args.ds.cols(), dim = args.a.cols() / heads;
  const T *a = args.a.data<T>(), *b = args.b.data<T>();
  const Wide<T>* ds = args.ds.data<Wide<T>>();
  T *da = data_or_null<T>(args.da), *db = data_or_null<T>(args.db);
  for (int64_t i = 0; i < args.ds.numel(); ++i)
    for (int64_t c = i * dim; c < (i + 1) * dim; ++c) {
      const double factor = args.scale * double(ds[i]), x = a[c], y = b[c];
      if (da) put(da[c], factor * y, args.accumulate_da);
      if (db) put(db[c], factor * x, args.accumulate_db);
    }
}

}  // namespace lithe::kernels::ref
