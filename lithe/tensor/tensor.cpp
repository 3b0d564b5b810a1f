#include "lithe/tensor/tensor.h"

#include <cstring>

namespace lithe {

Shape::Shape(std::span<const int64_t> sizes) : rank_(int(sizes.size())) {
  check(sizes.size() <= 4, "shape", "at most 4 axes, got ", sizes.size());
  for (int i = 0; i < rank_; ++i) {
    check(sizes[size_t(i)] >= 0, "shape", "sizes must not be negative, got ", sizes[size_t(i)]);
    sizes_[size_t(i)] = sizes[size_t(i)];
  }
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? "," : "") << shape[i];
  return out << ']';
}

Tensor::Tensor(const Tensor&) = default;
Tensor& Tensor::operator=(const Tensor&) = default;
Tensor& Tensor::operator=(Tensor&&) noexcept = default;
Tensor::~Tensor() = default;

Tensor::Tensor(Shape shape, DType dtype, Device device)
    : storage_(std::make_shared<Storage>(device, shape.numel() * size_of(dtype))), shape_(shape), dtype_(dtype) {}

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  return x.defined() ? out << x.dtype() << x.shape() : out << "none";
}

Tensor Tensor::outline(Shape shape, DType dtype) {
  Tensor out({0}, dtype, Device::meta);
  out.shape_ = shape;
  return out;
}

Tensor Tensor::slice(int64_t begin, int64_t end) const {
  check(shape_.rank() >= 1 && 0 <= begin && begin <= end && end <= shape_[0], "slice", "rows [", begin, ",", end,
        ") of ", shape_);
  std::array<int64_t, 4> sizes{};
  for (int i = 0; i < shape_.rank(); ++i) sizes[size_t(i)] = shape_[i];
  const int64_t row = shape_[0] ? bytes() / shape_[0] : 0;
  sizes[0] = end - begin;
  Tensor out = *this;
  out.shape_ = Shape(std::span<const int64_t>(sizes.data(), size_t(shape_.rank())));
  out.offset_ += begin * row;
  return out;
}

Tensor Tensor::reshape(Shape shape) const {
  check(shape.numel() == numel(), "reshape", shape_, " has ", numel(), " elements, ", shape, " has ", shape.numel());
  Tensor out = *this;
  out.shape_ = shape;
  return out;
}

Tensor empty(Shape shape, DType dtype, Device device) { return Tensor(shape, dtype, device); }
Tensor empty_like(const Tensor& x) { return Tensor(x.shape(), x.dtype(), x.device()); }

Tensor zeros(Shape shape, DType dtype, Device device) {
  Tensor x(shape, dtype, device);
  fill_zero(x);
  return x;
}

void fill_zero(const Tensor& x) {
  if (x.raw()) std::memset(x.raw(), 0, size_t(x.bytes()));
}

Tensor clone(const Tensor& x) {
  Tensor out = empty_like(x);
  copy_into(out, x);
  return out;
}

void copy_into(const Tensor& to, const Tensor& from) {
  check(to.dtype() == from.dtype() && to.numel() == from.numel(), "copy", "from ", from.dtype(), from.shape(), " to ",
        to.dtype(), to.shape());
  if (to.raw() && from.raw()) std::memcpy(to.raw(), from.raw(), size_t(from.bytes()));
}

void copy_rows(const Tensor& to, int64_t at, const Tensor& from, int64_t begin, int64_t n) {
  check(to.dtype() == from.dtype() && to.cols() == from.cols() && at >= 0 && begin >= 0 && n >= 0 &&
            at + n <= to.rows() && begin + n <= from.rows(),
        "copy", "rows [", begin, ",", begin + n, ") of ", from.dtype(), from.shape(), " to row ", at, " of ",
        to.dtype(), to.shape());
  const int64_t row = to.cols() * size_of(to.dtype());
  if (to.raw() && from.raw())
    std::memcpy(static_cast<std::byte*>(to.raw()) + at * row, static_cast<const std::byte*>(from.raw()) + begin * row,
                size_t(n * row));
}

namespace {
template <class T>
Tensor from_host(Shape shape, std::span<const T> values) {
  check(shape.numel() == int64_t(values.size()), "tensor", shape, " needs ", shape.numel(), " values, got ",
        values.size());
  Tensor x(shape, dtype_of<T>, Device::cpu);
  if (!values.empty()) std::memcpy(x.raw(), values.data(), values.size_bytes());
  return x;
}
}  // namespace

Tensor tensor_of(Shape shape, std::span<const float> values) { return from_host(shape, values); }
Tensor tensor_of(Shape shape, std::span<const double> values) { return from_host(shape, values); }
Tensor tensor_of(Shape shape, std::span<const int32_t> values) { return from_host(shape, values); }

double value_at(const Tensor& x, int64_t i) {
  switch (x.dtype()) {
    case DType::f64: return x.data<double>()[i];
    case DType::f32: return x.data<float>()[i];
    case DType::bf16: return float(x.data<bf16>()[i]);
    case DType::i64: return double(x.data<int64_t>()[i]);
    case DType::i32: return x.data<int32_t>()[i];
    case DType::u8: return x.data<uint8_t>()[i];
    case DType::i8: return x.data<int8_t>()[i];
  }
  return 0;
}

void set_value(const Tensor& x, int64_t i, double value) {
  switch (x.dtype()) {
    case DType::f64: x.data<double>()[i] = value; break;
    case DType::f32: x.data<float>()[i] = float(value); break;
    case DType::bf16: x.data<bf16>()[i] = float(value); break;
    case DType::i64: x.data<int64_t>()[i] = int64_t(value); break;
    case DType::i32: x.data<int32_t>()[i] = int32_t(value); break;
    case DType::u8: x.data<uint8_t>()[i] = uint8_t(value); break;
    case DType::i8: x.data<int8_t>()[i] = int8_t(value); break;
  }
}

Tensor convert(const Tensor& x, DType dtype) {
  Tensor out(x.shape(), dtype, x.device());
  if (!x.is_meta())
    for (int64_t i = 0; i < x.numel(); ++i) set_value(out, i, value_at(x, i));
  return out;
}

}  // namespace lithe
