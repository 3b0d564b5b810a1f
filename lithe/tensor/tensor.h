// Tensor: a dense row-major block of numbers with a shape. No maths here.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "lithe/tensor/dtype.h"
#include "lithe/tensor/memory.h"

namespace lithe {

/// Sizes of up to four axes. Prints as [2,3].
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes);
  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= sizes_[size_t(i)];
    return n;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, 4> sizes_{};
  int rank_ = 0;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// A shared handle: copies see the same numbers. A default-constructed Tensor is "none" (an absent
/// optional argument).
class Tensor {
 public:
  Tensor() = default;
  // Not inline: what copies and drops a handle would stand in every file hundreds of times.
  Tensor(const Tensor&);
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&);
  Tensor& operator=(Tensor&&) noexcept;
  ~Tensor();
  Tensor(Shape shape, DType dtype, Device device);
  /// Shape and dtype alone, on the meta device, of no bytes in its books.
  static Tensor outline(Shape shape, DType dtype);

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const Shape& shape() const { return shape_; }
  int64_t dim(int axis) const { return shape_[axis]; }
  int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  bool is_meta() const { return defined() && device() == Device::meta; }
  int64_t bytes() const { return numel() * size_of(dtype_); }

  /// Rows and columns of the tensor seen as a matrix: the last axis is the column axis.
  int64_t cols() const { return shape_.rank() ? shape_[-1] : 1; }
  int64_t rows() const { return cols() ? numel() / cols() : 0; }

  /// The first element; T must be the dtype. Null on meta.
  template <class T>
  T* data() const {
    check(dtype_of<T> == dtype_, "tensor", "holds ", dtype_, ", asked for as ", dtype_of<T>);
    return static_cast<T*>(raw());
  }
  void* raw() const { return storage_ && storage_->data() ? storage_->data() + offset_ : nullptr; }

  /// Rows [begin, end) along the first axis, sharing memory.
  Tensor slice(int64_t begin, int64_t end) const;
  /// The same numbers with another shape of the same count.
  Tensor reshape(Shape shape) const;
  /// Tensors that share the storage, this one included.
  long sharers() const { return storage_.use_count(); }

 private:
  std::shared_ptr<Storage> storage_;
  Shape shape_;
  DType dtype_ = DType::f32;
  int64_t offset_ = 0;  // bytes
};

/// As type and shape, f32[2,3], or "none".
std::ostream& operator<<(std::ostream& out, const Tensor& x);

/// Uninitialised.
Tensor empty(Shape shape, DType dtype, Device device = Device::cpu);
Tensor empty_like(const Tensor& x);
Tensor zeros(Shape shape, DType dtype, Device device = Device::cpu);
void fill_zero(const Tensor& x);
/// A copy with its own memory.
Tensor clone(const Tensor& x);
void copy_into(const Tensor& to, const Tensor& from);  // same dtype and count
/// Rows [begin, begin + n) of `from` over those of `to` from `at` on, without handles of either; same dtype and
/// columns.
void copy_rows(const Tensor& to, int64_t at, const Tensor& from, int64_t begin, int64_t n);
/// From host values.
Tensor tensor_of(Shape shape, std::span<const float> values);
Tensor tensor_of(Shape shape, std::span<const double> values);
Tensor tensor_of(Shape shape, std::span<const int32_t> values);
/// Element i in storage order, whatever the floating or integer type.
double value_at(const Tensor& x, int64_t i);
void set_value(const Tensor& x, int64_t i, double value);
/// Converted element by element (slow; for tests, files and small tensors).
Tensor convert(const Tensor& x, DType dtype);
/// x itself where it is of the type, else converted.
inline Tensor as_type(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : convert(x, dtype); }

}  // namespace lithe
