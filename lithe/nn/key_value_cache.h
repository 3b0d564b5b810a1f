// Keys and values of past tokens: the decode state of attention [TB 6.1.7, Fig 6.5].
#pragma once

#include <optional>

#include "lithe/nn/continuations.h"
#include "lithe/nn/slots.h"

namespace lithe {

/// The type of what a cache keeps by its name in recipes and commands: f32, bf16 or int8; none: that of the rows.
std::optional<DType> cache_type_named(const std::string& name);

/// Per sequence its keys and its values (one for both where they are the same rows), in pages that are made when
/// tokens come and freed when they go, so that `capacity` is a limit and no allocation. Sequences that continue the
/// same tokens share their pages; the one page that both would write is copied by the first that does. Rows of dtype i8
/// are rounded to 8 bits, with a scale for each of the `heads` of a row.
class KeyValueCache final : public MixerState {
 public:
  static constexpr int64_t kPageTokens = kernels::kPageRows;

  KeyValueCache(int64_t sequences, int64_t capacity, int64_t key_cols, int64_t value_cols, bool shared, DType dtype,
                Device device, int64_t heads = 1);

  /// Stores the rows of k and v behind what sequence b has.
  void append(const Tensor& k, const Tensor& v, const Sequences& sequences);
  /// What attention reads; no pages for a sequence without tokens.
  const std::vector<KeyValues>& entries() const { return entries_; }
  /// Keys and values of sequence b in one piece [tokens, cols] each, as numbers of `dtype`.
  struct Rows {
    Tensor keys, values;
  };
  Rows gather(int64_t b, DType dtype) const;
  /// Tokens of each sequence.
  const std::vector<int64_t>& tokens() const { return lengths_.all(); }
  /// Tokens of the longest sequence.
  int64_t longest() const;

  /// Bytes of `cols` numbers of `dtype` a token, and of `scales` scales where they are i8.
  static int64_t bytes_of(const std::vector<int64_t>& tokens, int64_t cols, DType dtype, int64_t scales = 1);
  /// Of the tokens in use, shared or not; the ledger has what is allocated: less than a page a sequence more.
  int64_t bytes() const override;
  void reorder(const std::vector<int64_t>& from) override;
  void truncate(int64_t sequence, int64_t tokens) override;

 private:
  int64_t capacity_, key_cols_, value_cols_, heads_;
  bool shared_;
  DType dtype_;
  Device device_;
  TokenCounts lengths_;
  std::vector<KeyValues> entries_;

  void make_writable(KeyValues& entry, int64_t page, int64_t kept) const;
};

}  // namespace lithe
