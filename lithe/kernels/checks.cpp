#include "lithe/kernels/checks.h"

#include "lithe/base/threads.h"

namespace lithe::kernels {
namespace {

// The texts of errors are only made when there is one: these checks run before every kernel.
std::string describe(const Named& t) {
  return t.tensor.defined() ? cat(t.name, " ", t.tensor) : cat(t.name, " (absent)");
}

bool floating(DType type) { return type == DType::f64 || type == DType::f32 || type == DType::bf16; }

bool overlap(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return false;
  const auto* p = static_cast<const std::byte*>(a.raw());
  const auto* q = static_cast<const std::byte*>(b.raw());
  return p && q && p < q + b.bytes() && q < p + a.bytes();
}

bool same_memory(const Tensor& a, const Tensor& b) { return a.raw() == b.raw() && a.bytes() == b.bytes(); }

}  // namespace

void check_rows(const char* op, const Named& x) {
  if (!x.tensor.defined() || !floating(x.tensor.dtype()))
    fail(op, x.name, " must hold f64, f32 or bf16, got ", describe(x));
}

void check_like(const char* op, const Named& t, const Named& model) {
  const bool ok = t.tensor.defined() && t.tensor.shape() == model.tensor.shape() &&
                  t.tensor.dtype() == model.tensor.dtype() && t.tensor.device() == model.tensor.device();
  if (!ok) fail(op, t.name, " must have the shape, dtype and device of ", describe(model), ", got ", describe(t));
}

void check_shape_like(const char* op, const Named& t, const Named& model) {
  check_rows(op, t);
  const bool ok = t.tensor.shape() == model.tensor.shape() && t.tensor.device() == model.tensor.device();
  if (!ok) fail(op, t.name, " must have the shape and device of ", describe(model), ", got ", describe(t));
}

void check_vector(const char* op, const Named& t, int64_t size, DType dtype, const Named& model) {
  const bool ok = t.tensor.defined() && t.tensor.shape() == Shape{size} && t.tensor.dtype() == dtype &&
                  t.tensor.device() == model.tensor.device();
  if (!ok) fail(op, t.name, " must be ", dtype, "[", size, "] to match ", describe(model), ", got ", describe(t));
}

void check_alias(const char* op, const Named& out, std::initializer_list<Named> may_be,
                 std::initializer_list<Named> apart_from) {
  for (const Named& t : may_be)
    if (overlap(out.tensor, t.tensor) && !same_memory(out.tensor, t.tensor))
      fail(op, out.name, " may be ", t.name, " itself but must not overlap a part of it: ", describe(out), ", ",
           describe(t));
  for (const Named& t : apart_from)
    if (overlap(out.tensor, t.tensor))
      fail(op, out.name, " must not share memory with ", t.name, ": ", describe(out), ", ", describe(t));
}

Tensor column_workspace(int64_t columns, const Tensor& rows, bool wanted) {
  if (!wanted || rows.dtype() == DType::f64) return {};
  const MemoryScope scope(MemoryClass::workspace);
  return Tensor({threads(), 2, columns}, DType::f32, rows.device());
}

double bytes_of(std::initializer_list<Tensor> tensors) {
  double sum = 0;
  for (const Tensor& t : tensors)
    if (t.defined()) sum += double(t.bytes());
  return sum;
}

}  // namespace lithe::kernels
