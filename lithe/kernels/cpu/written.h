// Results that are written once and not read by the kernel.
#pragma once

#include "lithe/base/machine.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/tensor/tensor.h"

namespace lithe::kernels::cpu::LITHE_ISA {

/// The elements of a result. A result larger than the last cache cannot stay there for its reader, so it is written
/// around the caches, which else read every line before it is written.
template <class T>
struct Written {
  T* data;
  bool around;
  [[gnu::always_inline]] void operator()(int64_t i, Vec v, All lanes) const {
    if (around)
      stream(data + i, v);
    else
      store(data + i, v, lanes);
  }
  [[gnu::always_inline]] void operator()(int64_t i, Vec v, First lanes) const { store(data + i, v, lanes); }
};

/// y[i] (+)= v, by lanes.
template <bool accumulate, class T, class Lanes>
[[gnu::always_inline]] inline void put(const Written<T>& y, int64_t i, Vec v, Lanes lanes) {
  if constexpr (accumulate)
    store(y.data + i, v + load(y.data + i, lanes), lanes);
  else
    y(i, v, lanes);
}

/// Vectors start at multiples of kLanes in rows of `cols` elements, or of no rows at all.
template <class T>
[[gnu::always_inline]] inline Written<T> written(const Tensor& t, int64_t cols = kLanes) {
  T* data = static_cast<T*>(t.raw());
  constexpr int64_t bytes = kLanes * int64_t(sizeof(T));
  return {data, t.numel() * int64_t(sizeof(T)) >= last_cache_bytes() && cols % kLanes == 0 &&
                    reinterpret_cast<uintptr_t>(data) % bytes == 0};
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
