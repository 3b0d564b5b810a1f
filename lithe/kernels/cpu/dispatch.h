// From tensors to pointers, sizes and template arguments. Nothing of what tensor.h defines inline may be
// left as a function of its own here: the linker would keep one copy, of any instruction set, for the whole
// program. So only its smallest functions are used, and not lithe::dispatch_float, which has error texts.
// f64 never comes here: it runs on the reference.
#pragma once

#include "lithe/tensor/tensor.h"

namespace lithe::kernels::cpu::LITHE_ISA {

/// The address of the first element, null when the tensor is absent; T must be the dtype.
template <class T>
[[gnu::always_inline]] inline T* pointer(const Tensor& t) {
  return static_cast<T*>(t.raw());
}
[[gnu::always_inline]] inline int64_t cols_of(const Tensor& t) { return t.shape().rank() ? t.shape()[-1] : 1; }
[[gnu::always_inline]] inline int64_t rows_of(const Tensor& t) { return cols_of(t) ? t.numel() / cols_of(t) : 0; }

/// Calls f.template operator()<T>() with T = float or bf16.
template <class F>
[[gnu::always_inline]] inline void by_type(DType type, F&& f) {
  if (type == DType::bf16)
    f.template operator()<bf16>();
  else
    f.template operator()<float>();
}

/// Calls f.template operator()<flag>().
template <class F>
[[gnu::always_inline]] inline void by_flag(bool flag, F&& f) {
  if (flag)
    f.template operator()<true>();
  else
    f.template operator()<false>();
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
