// The references compute every value in double, whatever the storage type, and round once on storing.
#pragma once

#include <type_traits>

#include "lithe/tensor/tensor.h"

namespace lithe::kernels::ref {

/// Storage of weights, statistics and sums beside rows of T: double for double, otherwise float.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// The first element, or null when the tensor is absent.
template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

/// y = v, or y += v.
template <class T>
void put(T& y, double v, bool accumulate) {
  y = T(accumulate ? double(y) + v : v);
}

}  // namespace lithe::kernels::ref
