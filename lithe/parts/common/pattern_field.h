// Fields that say pair by pair who meets: from ranges of positions, or from labels of queries and keys.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>

#include "lithe/nn/slots.h"

namespace lithe {

using Visits = kernels::TileMask::Visits;

/// Positions [begin, end).
struct KeyRange {
  int64_t begin, end;
};

/// Adds the ranges that query i (from 0) sees, as numbers of keys; they may overlap and go beyond the keys.
using RangesOf = std::function<void(int64_t query, std::vector<KeyRange>& out)>;
/// The pairs of `queries` queries and `keys` keys that ranges name. A pattern that many tiles have is kept once.
std::shared_ptr<const Visits> visits_of(int64_t queries, int64_t keys, const RangesOf& ranges);

/// The pairs of a pattern of the segment `b` and a head, without its causal rule.
std::shared_ptr<const Visits> visits_of(const kernels::AttentionPattern& pattern, int64_t heads, int64_t b,
                                        int64_t head, int64_t queries, int64_t keys);
/// Pairs that some of them have; null is all pairs.
std::shared_ptr<const Visits> union_of(const std::vector<std::shared_ptr<const Visits>>& parts, int64_t queries,
                                       int64_t keys);

// spec: sparse.field | field | pairs by ranges or labels, as tiles that the fused kernel visits | TB Eq 6.119-6.122

/// A field that looks at positions alone.
class PatternField : public Field {
 public:
  explicit PatternField(const Args& args) : args_(args) {}
  kernels::AttentionPattern pattern(const FieldInput& in) const final;

 protected:
  /// Adds the ranges of positions that the query at `position` sees in a text of `tokens` tokens (those so far, where
  /// tokens are generated). Causal fields need not cut them at the query.
  virtual void see(int64_t position, int64_t tokens, int64_t head, std::vector<KeyRange>& out) const = 0;
  /// Heads see different positions.
  virtual bool by_head() const { return false; }
  const Args& args() const { return args_; }

 private:
  struct Key {
    int64_t query, queries, first, keys, sinks, head;
    auto operator<=>(const Key&) const = default;
  };
  Args args_;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::shared_ptr<const Visits>> made_;  // what many steps and layers ask for

  std::shared_ptr<const Visits> visits(const Key& key) const;
};

/// The pattern of a field from what each sequence and head of it sees.
kernels::AttentionPattern tiled_pattern(
    bool causal, int64_t heads, const FieldInput& in,
    const std::function<std::shared_ptr<const Visits>(int64_t b, int64_t head)>& visits);

/// Who meets by labels, [rows, heads*rounds] of queries and of keys, u8 or i32 from 0 to `kinds` - 1, those of a head
/// side by side: a query sees the keys that have its label of some round, and the key at its own position; that one
/// only where it sees no other, if it is the `last_resort`.
kernels::AttentionPattern labelled_pattern(bool causal, int64_t heads, int64_t kinds, const FieldInput& in,
                                           const Tensor& of_queries, const Tensor& of_keys, bool last_resort = false);
/// The type of such labels.
inline DType label_type(int64_t kinds) { return kinds <= 256 ? DType::u8 : DType::i32; }

/// Products of one head's part of rows [begin, begin + n) of x [rows, heads*d_h] with `directions` [count][d_h]:
/// [n][count], in double, each a sum in the order of the channels, so that it does not depend on what is beside it.
std::vector<double> head_products(const Tensor& x, int64_t begin, int64_t n, int64_t head, int64_t heads,
                                  std::span<const double> directions);
/// Numbers of one column of rows [begin, begin + n) of x, which is f64, f32 or bf16.
std::vector<double> column(const Tensor& x, int64_t begin, int64_t n, int64_t column);
/// Which numbers stand at [first, last) when all are sorted, equal ones by their indices: these indices, in no order.
std::vector<int64_t> at_ranks(std::span<const double> x, int64_t first, int64_t last);
/// `wanted` different numbers below `count`, ascending, by Floyd's method.
std::vector<int64_t> draw_without_replacement(const RandomKey& key, int64_t wanted, int64_t count);
/// Keys are sorted by their scores, equal ones by position, and cut into chunks of `size`: for each query those of the
/// chunk that its own score falls into (before an equal one of a later key), and with `previous` of the one before. A
/// causal query sorts the keys up to its own, `ahead` of its number.
struct SortedChunks {
  bool causal = true, previous = false;
  int64_t size = 1, ahead = 0;
};
std::vector<std::vector<int64_t>> sorted_chunks(const std::vector<double>& queries, const std::vector<double>& keys,
                                                const SortedChunks& how);
/// The first row of k of each sequence, and their end.
std::vector<int64_t> key_offsets(const FieldInput& in);

}  // namespace lithe
