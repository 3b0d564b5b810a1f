// What the public functions of the kernel families check before they run; the messages name the
// operation, both shapes and what to do.
#pragma once

#include <initializer_list>

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// A tensor and the name that errors give it.
struct Named {
  const char* name;
  const Tensor& tensor;
};

/// x must be given and hold f64, f32 or bf16.
void check_rows(const char* op, const Named& x);
/// t must have the shape, dtype and device of `model`.
void check_like(const char* op, const Named& t, const Named& model);
/// t must have the shape and device of `model`, and any floating type.
void check_shape_like(const char* op, const Named& t, const Named& model);
/// t must be [size] of `dtype`; `why` ends the message, as in "to match x [2,4]".
void check_vector(const char* op, const Named& t, int64_t size, DType dtype, const Named& model);
/// `out` must be exactly one of `may_be` or share no byte with it; it must share none with `apart_from`.
void check_alias(const char* op, const Named& out, std::initializer_list<Named> may_be,
                 std::initializer_list<Named> apart_from);

/// Workspace [threads, 2, columns] f32 for column sums beside `rows`, booked as such on meta too; none when
/// the sums are not `wanted` or when f64 sends the call to the reference.
Tensor column_workspace(int64_t columns, const Tensor& rows, bool wanted);

/// Bytes of all tensors that are given, each once.
double bytes_of(std::initializer_list<Tensor> tensors);

/// Why the vector kernels leave f64 to the reference, or null.
inline const char* refuse_f64(const Tensor& x) {
  return x.dtype() == DType::f64 ? "f64 runs on the reference" : nullptr;
}

}  // namespace lithe::kernels
