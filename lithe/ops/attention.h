// Attention over packed sequences, and rotary positions.
#pragma once

#include <functional>

#include "lithe/autograd/var.h"
#include "lithe/kernels/attention/attention.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// What is added to the scaled logits of a query and a key, or multiplies weights: kernels::AttentionBias,
/// differentiable.
struct LogitBias {
  /// What becomes of it: added to logits l; or exp(bias), and the numbers of pairs as they are, multiply the weights
  /// softmax(l), which are not normalised again; or the weights are (1 - share) softmax(l) + share softmax(bias); or
  /// there is no bias, but a softmax for each of `rounds`, which says who meets in place of AttendOptions::tiles, and
  /// they are joined by their sums of exponentials: a key that is met in two rounds counts twice.
  enum class Use { add, multiply, mix, rounds };
  Var table;          // [W, heads] in f32 (f64 for f64), by distance
  int64_t first = 0;  // distance of row 0
  Var rows;           // [N, heads*R], by query and distance
  Var columns;        // [S, heads*C], by key and distance
  Var rates, centres;
  bool squared = false;
  Use use = Use::add;
  Var share;  // [N, heads], mix only
  /// kernels::AttentionBias: numbers of the pairs of each sequence, which nothing is learnt from. They multiply logits
  /// only where Use is add.
  Tensor pairs;
  std::vector<int64_t> pair_offsets;
  std::vector<uint8_t> pair_heads;
  bool pairs_multiply = false;
  std::vector<std::shared_ptr<const kernels::TileMask>> rounds = {};  // null: all pairs of the mask
  bool defined() const {
    return table.defined() || rows.defined() || columns.defined() || rates.defined() || pairs.defined() ||
           !rounds.empty();
  }
  kernels::AttentionBias values() const;
};

/// Values that depend on the distance: table [U, d_v] in f32 (f64 for f64), for all heads; row clamp(t - first) is
/// added to the value of a key that stands t before the query.
struct DistanceValues {
  Var table;
  int64_t first = 0;
};

struct AttendOptions {
  int64_t heads = 1, kv_heads = 1;
  double scale = 0;  // 0: 1/sqrt(head_dim)
  kernels::AttentionMask mask;
  std::vector<kernels::AttentionMask> head_masks = {};       // of each query head, in place of `mask`
  std::shared_ptr<const kernels::TileMask> tiles = nullptr;  // which tiles meet, beside the mask
  LogitBias bias = {};
  DistanceValues values = {};
  std::shared_ptr<const kernels::KeyTurn> turn = nullptr;  // attend_cached(): of the keys in caches,
  std::vector<int64_t> key_positions = {};                 // from the position of the first in each
  double softcap = 0;  // > 0: logits are softcap tanh(logits / softcap) before mask and bias
};

/// softmax(cap(scale q k^T) + mask + bias) v per head. q [N, heads*d_h], k [S, kv_heads*d_h], v [S, kv_heads*d_v];
/// queries and keys of sequence b attend to each other. Without a cache S = N and `keys` = `queries`.
/// Result [N, heads*d_v].
Var attend(const Var& q, const Var& k, const Var& v, const Sequences& queries, const Sequences& keys,
           const AttendOptions& options);

/// Both biases of so many heads; fails (usage) when they need the same place, or are used in different ways.
LogitBias join(const LogitBias& a, const LogitBias& b, int64_t heads);

/// What weakens keys: log presence [S, 1] in f32 (f64 for f64) is added to the logits of a key in all heads.
LogitBias presence_bias(const Var& log_presence, int64_t heads);

/// The weight that each key of attend() of sequences to themselves gets, the mean over heads and queries: [N, 1] in f32
/// (f64 for f64). Sum over a sequence: 1 where every query sees a key.
Var attention_received(const Var& q, const Var& k, const Sequences& sequences, AttendOptions options);

/// attend() of sequences to themselves, composed of explicit maps [heads*T, T] that `change` may alter (dropout of
/// weights): slower, and the maps are kept for the gradient. `b` is the sequence.
Var attend_by_maps(const Var& q, const Var& k, const Var& v, const Sequences& sequences, const AttendOptions& options,
                   const std::function<Var(const Var& map, int64_t b)>& change);

/// The same for decoding, without gradients: sequence b's keys and values are rows [0, keys[b]) of caches[b]. Its last
/// query stands at the last key.
struct KeyValues {
  kernels::PagedRows keys, values;  // [capacity, kv_heads*d_h], [capacity, kv_heads*d_v]
};
Tensor attend_cached(const Tensor& q, const std::vector<KeyValues>& caches, const std::vector<int64_t>& keys,
                     const Sequences& queries, const AttendOptions& options);

/// Rotates each head's channels by the row's position. x [N, heads*head_dim].
Var rotate(const Var& x, const Tensor& positions, int64_t head_dim, double base, bool interleaved);

}  // namespace lithe
