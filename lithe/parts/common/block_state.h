// What attention to means of blocks keeps: keys and values of the blocks that have ended, and the sums of the open one.
#pragma once

#include <algorithm>

#include "lithe/parts/common/key_value_cache.h"
#include "lithe/parts/common/recurrent_state.h"

namespace lithe {

/// Blocks of `size` tokens; of one, nothing is open.
class BlockState final : public State {
 public:
  BlockState(const StateShape& shape, const KeyValueCache::Columns& columns, int64_t size)
      : size_(size),
        columns_(columns),
        cache_({shape.sequences, std::max<int64_t>(1, shape.capacity / size), shape.dtype, shape.device}, columns),
        open_("multi_scale", shape, size == 1 ? Shape{0} : Shape{columns.keys + columns.values}) {}

  /// Bytes that sequences of so many tokens keep.
  static int64_t bytes_of(const std::vector<int64_t>& tokens, const KeyValueCache::Columns& columns, int64_t size,
                          DType dtype) {
    std::vector<int64_t> blocks;
    for (const int64_t n : tokens) blocks.push_back(n / size);
    const int64_t open = size == 1 ? 0 : columns.keys + columns.values;
    return KeyValueCache::bytes_of(blocks, columns, dtype) + int64_t(tokens.size()) * open * size_of(wide_of(dtype));
  }
  const KeyValueCache& cache() const { return cache_; }

  /// Takes in the keys and values [N, columns] of rows that continue the sequences.
  void append(const Tensor& k, const Tensor& v, const Sequences& rows) {
    const std::vector<Tensor>& sums = open_.advance(rows);
    std::vector<int64_t> offsets{0}, past;
    for (int64_t b = 0; b < rows.count(); ++b) {
      past.push_back(rows.past(b) / size_);
      offsets.push_back(offsets.back() + (rows.past(b) + rows.length(b)) / size_ - past.back());
    }
    if (size_ == 1) {
      cache_.append(k, v, rows);
      return;
    }
    const int64_t blocks = offsets.back();
    const Tensor keys = empty({blocks, columns_.keys}, k.dtype(), k.device()),
                 values = empty({blocks, columns_.values}, v.dtype(), v.device());
    for (int64_t b = 0; b < rows.count() && !k.is_meta(); ++b)
      add_rows_of(b, k, v, rows, sums[size_t(b)], keys, values, offsets[size_t(b)]);
    if (blocks) cache_.append(keys, values, Sequences(offsets, past, k.device()));
  }

  int64_t bytes() const override { return cache_.bytes() + open_.bytes(); }
  void reorder(const std::vector<int64_t>& from) override { cache_.reorder(from), open_.reorder(from); }
  bool truncates() const override { return size_ == 1; }
  void truncate(int64_t sequence, int64_t tokens) override {
    open_.truncate(sequence, tokens);
    const int64_t left = tokens / size_;
    if (left < cache_.tokens()[size_t(sequence)]) cache_.truncate(sequence, left);
  }
  NamedTensors save() const override {
    NamedTensors out;
    for (const auto& [name, tensor] : cache_.save()) out["blocks." + name] = tensor;
    for (const auto& [name, tensor] : open_.save()) out["open." + name] = tensor;
    return out;
  }
  void restore(const NamedTensors& kept) override {
    NamedTensors blocks, open;
    for (const auto& [name, tensor] : kept)
      name.starts_with("open.") ? open[name.substr(5)] = tensor : blocks[name.substr(7)] = tensor;
    cache_.restore(blocks), open_.restore(open);
  }

 private:
  int64_t size_;
  KeyValueCache::Columns columns_;
  KeyValueCache cache_;
  RecurrentState open_;

  // Adds up the rows of sequence b, and writes the mean of each block that ends, from row `block` on.
  void add_rows_of(int64_t b, const Tensor& k, const Tensor& v, const Sequences& rows, const Tensor& sums,
                   const Tensor& keys, const Tensor& values, int64_t block) const {
    int64_t position = rows.past(b);
    for (int64_t row = rows.offset(b); row < rows.offset(b + 1); ++row) {
      const bool begins = position % size_ == 0, ends = ++position % size_ == 0;
      const auto add = [&](const Tensor& x, int64_t cols, int64_t first, const Tensor& out) {
        for (int64_t c = 0; c < cols; ++c) {
          const double sum = (begins ? 0 : value_at(sums, first + c)) + value_at(x, row * cols + c);
          set_value(sums, first + c, sum);
          if (ends) set_value(out, block * cols + c, sum / double(size_));
        }
      };
      add(k, columns_.keys, 0, keys);
      add(v, columns_.values, columns_.keys, values);
      block += ends;
    }
  }
};

}  // namespace lithe
