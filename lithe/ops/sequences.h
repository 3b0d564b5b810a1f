// Which rows belong together: hidden states are [N, D], the rows of all sequences one after another.
#pragma once

#include <vector>

#include "lithe/tensor/tensor.h"

namespace lithe {

// spec: mask.padding | data | sequences of any lengths, packed without padding, which never meet | TB 6.1.7
/// B sequences in N rows. Sequence b owns rows [offset(b), offset(b+1)); `past(b)` tokens came before
/// them and live in a decode state (0 in training).
class Sequences {
 public:
  Sequences() = default;
  /// offsets [B+1], offsets[0] = 0, not decreasing; past [B] or empty (all 0).
  explicit Sequences(std::vector<int64_t> offsets, std::vector<int64_t> past = {}, Device device = Device::cpu);
  /// One sequence of n rows.
  static Sequences single(int64_t n, Device device = Device::cpu) { return Sequences({0, n}, {}, device); }
  /// The same rows, which stand at these positions: i32 [N], of rows that were moved or left out.
  Sequences at(Tensor positions) const;

  int64_t count() const { return int64_t(offsets_.size()) - 1; }
  int64_t rows() const { return offsets_.back(); }
  int64_t offset(int64_t b) const { return offsets_[size_t(b)]; }
  int64_t length(int64_t b) const { return offset(b + 1) - offset(b); }
  int64_t past(int64_t b) const { return past_.empty() ? 0 : past_[size_t(b)]; }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  /// i32 [N]: each row's position in its sequence, from 0, the past counted, unless at() gave them.
  const Tensor& positions() const { return positions_; }
  /// The row of each sequence's last token.
  std::vector<int64_t> last_rows() const;

 private:
  std::vector<int64_t> offsets_ = {0}, past_;
  Tensor positions_;
};

}  // namespace lithe
