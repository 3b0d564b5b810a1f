// The decode state of memories (nn/memory_slot.h), and small things that all of them do.
#pragma once

#include "lithe/nn/memory_slot.h"
#include "lithe/nn/state.h"
#include "lithe/ops/basic.h"
#include "lithe/parts/common/continuations.h"

namespace lithe {

/// What a memory keeps of each sequence. Tensors are replaced and never written, so that continuations share them.
class MemoryState final : public State {
 public:
  MemoryState(const StateShape& of, const Memory& memory) : memory_(&memory), of_(of), tokens_("memory", of.sequences) {
    for (int64_t b = 0; b < of.sequences; ++b) kept_.push_back(empty_of(memory, of.dtype, of.device));
  }
  /// Zeros in the shapes of what is kept before the first token.
  static Memory::Kept empty_of(const Memory& memory, DType dtype, Device device) {
    const MemoryScope scope(MemoryClass::decode);
    Memory::Kept out;
    for (const Memory::Piece& p : memory.kept(0))
      out.push_back(zeros(p.shape, p.wide ? wide_of(dtype) : dtype, device));
    return out;
  }
  static int64_t bytes_of(const Memory& memory, int64_t tokens, DType dtype) {
    int64_t total = 0;
    for (const Memory::Piece& p : memory.kept(tokens))
      total += p.shape.numel() * size_of(p.wide ? wide_of(dtype) : dtype);
    return total;
  }

  void check_continues(const Sequences& sequences) const { tokens_.check_continues(sequences); }
  Memory::Kept& of(int64_t b) { return kept_[size_t(b)]; }
  void add(const Sequences& sequences) { tokens_.add(sequences); }
  void set(const std::vector<int64_t>& tokens) { tokens_.set(tokens); }

  int64_t bytes() const override {
    int64_t total = 0;
    for (const int64_t tokens : tokens_.all()) total += bytes_of(*memory_, tokens, of_.dtype);
    return total;
  }
  void reorder(const std::vector<int64_t>& from) override { tokens_.reorder(from, kept_); }
  bool truncates() const override { return false; }
  void truncate(int64_t sequence, int64_t tokens) override {
    const int64_t length = tokens_[sequence];
    check(tokens == 0 || tokens == length, "memory", "the memory of ", length, " tokens cannot go back to ", tokens,
          "; truncate to 0 and feed the first ", tokens, " again");
    tokens_.truncate(sequence, tokens);
    if (tokens != length) kept_[size_t(sequence)] = empty_of(*memory_, of_.dtype, of_.device);
  }
  bool differentiable() const override { return true; }
  NamedTensors save() const override {
    NamedTensors out{{"tokens", tensor_of_counts(tokens_.all())}};
    for (size_t b = 0; b < kept_.size(); ++b)
      for (size_t i = 0; i < kept_[b].size(); ++i)
        if (kept_[b][i].numel()) out[cat(b, ".", i)] = kept_[b][i];
    return out;
  }
  void restore(const NamedTensors& kept) override {
    const std::vector<int64_t> counts = counts_of(kept_tensor(kept, "tokens"), int64_t(kept_.size()));
    const MemoryScope scope(MemoryClass::decode);
    for (size_t b = 0; b < kept_.size(); ++b) {
      check(counts[b] >= 0, "state", "the saved state has ", counts[b], " tokens of sequence ", b);
      const std::vector<Memory::Piece> pieces = memory_->kept(counts[b]);
      for (size_t i = 0; i < pieces.size(); ++i) {
        const std::string name = cat(b, ".", i);
        const Shape& shape = pieces[i].shape;
        if (shape.numel())  // before room is made for it
          check(kept_tensor(kept, name).shape() == shape, "state", "'", name, "' was saved as ",
                kept_tensor(kept, name).shape(), ", this state keeps ", shape, "; it was saved by another model");
        kept_[b][i] = empty(shape, pieces[i].wide ? wide_of(of_.dtype) : of_.dtype, of_.device);
        if (shape.numel()) restore_tensor(kept_[b][i], kept, name);
      }
    }
    tokens_.set(counts);
  }

 private:
  const Memory* memory_;
  StateShape of_;
  TokenCounts tokens_;
  std::vector<Memory::Kept> kept_;
};

/// Rows of several tensors, one after another, as something that is kept: in memory of its own.
inline Tensor kept_rows(const std::vector<Tensor>& parts, int64_t cols, DType dtype, Device device) {
  const MemoryScope scope(MemoryClass::decode);
  int64_t rows = 0, at = 0;
  for (const Tensor& x : parts) rows += x.dim(0);
  const Tensor out = empty({rows, cols}, dtype, device);
  for (const Tensor& x : parts) {
    if (x.dim(0) && !out.is_meta()) copy_into(out.slice(at, at + x.dim(0)), x);
    at += x.dim(0);
  }
  return out;
}
/// The rows [begin, end) of `old`, then `fresh`, both [n, cols].
inline Tensor kept_rows(const Tensor& old, const Tensor& fresh, int64_t begin, int64_t end) {
  const int64_t n = old.dim(0);
  return kept_rows({old.slice(std::min(begin, n), std::min(end, n)),
                    fresh.slice(std::max<int64_t>(begin - n, 0), std::max<int64_t>(end - n, 0))},
                   fresh.cols(), fresh.dtype(), fresh.device());
}

/// `old`, a constant, and the rows behind it.
inline Var joined(const Tensor& old, const Var& fresh) {
  if (old.dim(0) == 0) return fresh;
  if (fresh.rows() == 0) return old;
  return concatenate_rows({old, fresh});
}

}  // namespace lithe
