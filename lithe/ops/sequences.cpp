#include "lithe/ops/sequences.h"

namespace lithe {

Sequences::Sequences(std::vector<int64_t> offsets, std::vector<int64_t> past, Device device)
    : offsets_(std::move(offsets)), past_(std::move(past)) {
  check(!offsets_.empty() && offsets_[0] == 0, "sequences", "offsets must start with 0");
  check(past_.empty() || int64_t(past_.size()) == count(), "sequences",
        "past must have one entry a sequence: ", count(), ", got ", past_.size());
  for (int64_t b = 0; b < count(); ++b)
    check(length(b) >= 0 && this->past(b) >= 0, "sequences",
          "offsets must not decrease and past must not be negative (sequence ", b, ")");
  positions_ = empty({rows()}, DType::i32, device);
  if (device == Device::meta) return;
  int32_t* out = positions_.data<int32_t>();
  for (int64_t b = 0; b < count(); ++b)
    for (int64_t i = 0; i < length(b); ++i) *out++ = int32_t(this->past(b) + i);
}

Sequences Sequences::at(Tensor positions) const {
  check(positions.dtype() == DType::i32 && positions.shape() == Shape{rows()}, "sequences", "positions must be i32 [",
        rows(), "], one a row, got ", positions.dtype(), positions.shape());
  Sequences out = *this;
  out.positions_ = std::move(positions);
  return out;
}

std::vector<int64_t> Sequences::last_rows() const {
  std::vector<int64_t> rows;
  for (int64_t b = 0; b < count(); ++b) {
    check(length(b) > 0, "sequences", "sequence ", b, " is empty");
    rows.push_back(offset(b + 1) - 1);
  }
  return rows;
}

}  // namespace lithe
