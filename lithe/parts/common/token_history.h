// The last tokens of each sequence, for parts that read n-grams while a text grows.
#pragma once

#include <algorithm>

#include "lithe/nn/state.h"
#include "lithe/parts/common/continuations.h"

namespace lithe {

/// The last tokens of each sequence, the newest first; -1 where there was none. It cannot forget single tokens.
class TokenHistory final : public State {
 public:
  TokenHistory(const char* owner, const StateShape& of, int64_t tokens)
      : owner_(owner), counts_(owner, of.sequences), count_(tokens) {
    const MemoryScope memory(MemoryClass::decode);
    for (int64_t b = 0; b < of.sequences; ++b) {
      last_.push_back(empty({tokens}, DType::i32, of.device));
      forget(last_.back());
    }
  }
  static int64_t bytes_of(int64_t sequences, int64_t tokens) { return sequences * tokens * size_of(DType::i32); }

  /// A token and the `tokens` before it, -1 where there is none: i32 [N, 1 + tokens] of tokens i32 [N] that follow.
  Tensor follow(const Tensor& tokens, const Sequences& sequences) {
    counts_.check_continues(sequences);
    const Tensor out = windows(tokens, sequences, count_, &last_);
    counts_.add(sequences);
    return out;
  }
  /// The same of whole sequences.
  static Tensor whole(const Tensor& tokens, const Sequences& sequences, int64_t count) {
    return windows(tokens, sequences, count, nullptr);
  }

  int64_t bytes() const override { return bytes_of(int64_t(last_.size()), count_); }
  void reorder(const std::vector<int64_t>& from) override {
    counts_.reorder_apart(from, last_, [](const Tensor& x) { return clone(x); });
  }
  bool truncates() const override { return count_ == 0; }
  bool differentiable() const override { return true; }
  void truncate(int64_t sequence, int64_t tokens) override {
    const int64_t length = counts_[sequence];
    check(tokens == 0 || tokens == length || count_ == 0, owner_, "the state keeps the last ", count_, " of ", length,
          " tokens and cannot go back to ", tokens, "; truncate to 0 and feed the first ", tokens, " again");
    counts_.truncate(sequence, tokens);
    if (tokens != length) forget(last_[size_t(sequence)]);
  }
  NamedTensors save() const override {
    NamedTensors out{{"tokens", tensor_of_counts(counts_.all())}};
    for (size_t b = 0; b < last_.size() && count_; ++b) out[cat(b)] = last_[b];
    return out;
  }
  void restore(const NamedTensors& kept) override {
    counts_.set(counts_of(kept_tensor(kept, "tokens"), int64_t(last_.size())));
    for (size_t b = 0; b < last_.size() && count_; ++b) restore_tensor(last_[b], kept, cat(b));
  }

 private:
  const char* owner_;
  TokenCounts counts_;
  int64_t count_;
  std::vector<Tensor> last_;  // i32 [count_]

  static void forget(const Tensor& x) {
    if (!x.is_meta()) std::fill_n(x.data<int32_t>(), x.numel(), -1);
  }
  static Tensor windows(const Tensor& tokens, const Sequences& sequences, int64_t count,
                        const std::vector<Tensor>* last) {
    check(tokens.dtype() == DType::i32 && tokens.numel() == sequences.rows(), "n-grams", "tokens must be i32 [",
          sequences.rows(), "], one a row, got ", tokens.dtype(), tokens.shape());
    const Tensor out = empty({sequences.rows(), 1 + count}, DType::i32, tokens.device());
    if (out.is_meta()) return out;
    const int32_t* id = tokens.data<int32_t>();
    int32_t* to = out.data<int32_t>();
    for (int64_t b = 0; b < sequences.count(); ++b) {
      const int64_t begin = sequences.offset(b), length = sequences.length(b);
      const int32_t* before = last ? (*last)[size_t(b)].data<int32_t>() : nullptr;
      const auto at = [&](int64_t t) {  // counted from the first of these; negative: before it
        return t >= 0 ? id[begin + t] : before && -t <= count ? before[-t - 1] : -1;
      };
      for (int64_t t = 0; t < length; ++t)
        for (int64_t k = 0; k <= count; ++k) *to++ = at(t - k);
      if (!before) continue;
      std::vector<int32_t> now;
      for (int64_t k = 0; k < count; ++k) now.push_back(at(length - 1 - k));
      std::copy(now.begin(), now.end(), (*last)[size_t(b)].data<int32_t>());
    }
    return out;
  }
};

}  // namespace lithe
