// The specification of embedding.h: scalar, serial, in double.
#pragma once

#include "lithe/kernels/embedding/embedding.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

// out[n,:] (+)= scale table[ids[n],:], nothing for ids[n] < 0
template <class T, class O>
void gather(const GatherArgs& a) {
  const int64_t N = a.ids.numel(), D = a.table.cols();
  const T* table = a.table.data<T>();
  const int32_t* ids = a.ids.data<int32_t>();
  O* out = a.out.data<O>();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t d = 0; d < D; ++d)
      put(out[n * D + d], ids[n] < 0 ? 0 : a.scale * double(table[ids[n] * D + d]), a.accumulate);
}

// dtable[ids[n],:] += scale dout[n,:], for n in order
template <class T>
void scatter_add(const ScatterAddArgs& a) {
  const int64_t N = a.ids.numel(), D = a.dtable.cols();
  const T* dout = a.dout.data<T>();
  const int32_t* ids = a.ids.data<int32_t>();
  Wide<T>* dtable = a.dtable.data<Wide<T>>();
  for (int64_t n = 0; n < N; ++n)
    if (ids[n] >= 0 && ids[n] != a.skip)
      for (int64_t d = 0; d < D; ++d) put(dtable[ids[n] * D + d], a.scale * double(dout[n * D + d]), true);
}

}  // namespace lithe::kernels::ref
