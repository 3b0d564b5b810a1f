// Softmax attention over packed sequences (spec attn.qkv, mixer.mha, mask.causal, hpc.flash): tiled, so
// that the map of weights is never stored.
#pragma once

#include <array>
#include <memory>

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// Pages of several hold a multiple of so many rows: tiles of the kernels lie within one.
constexpr int64_t kPageRows = 64;

/// Keys or values in pages, one after another: pages [rows, cols], all of one type and, but for the last, of one
/// number of rows, a multiple of kPageRows where there are several. Pages i8 have `scales`, f32 [rows, kv_heads] a
/// page: the numbers of a row and head are its scale times the integers. Pages u8 are rows of `width` numbers in 4 bits
/// with bf16 scales (int4_rows.h).
struct PagedRows {
  std::vector<Tensor> pages, scales;
  int64_t width = 0;  // numbers of a row in 4 bits; else 0

  PagedRows() = default;
  PagedRows(Tensor rows) {
    if (rows) pages.push_back(std::move(rows));
  }
  bool defined() const { return !pages.empty(); }
  DType dtype() const { return pages[0].dtype(); }
  /// Numbers of a row.
  int64_t cols() const { return width ? width : pages[0].cols(); }
  /// Rows of a page, the last one excepted.
  int64_t page_rows() const { return pages[0].dim(0); }
};

/// What a row takes in a page of `type` and in the page's scales.
struct PageRow {
  DType type, scale_type;
  int64_t cols, scales;  // columns; scales 0: there are none
  int64_t bytes() const { return cols * size_of(type) + scales * size_of(scale_type); }
};
/// Of a row of `numbers` numbers of `heads` heads.
PageRow page_row(DType type, int64_t numbers, int64_t heads);

/// One sequence: `query_rows` rows of q from `query_row` on attend to `key_rows` keys. Keys and values
/// are rows [key_row, key_row + key_rows) of AttentionArgs::k and v, or of this segment's own `keys` and
/// `values` when those are defined (a decode cache; rows beyond key_rows are not read). Own keys and values of a call
/// have one type: that of q, or f32, bf16, i8 or u8.
/// Columns of a bias are rows [key_row, key_row + key_rows) even where the segment has keys of its own.
/// Query i (from 0) has position i + key_rows - query_rows among the keys. `key_position`: of its first key, by which
/// AttentionArgs::turn turns.
struct AttentionSegment {
  int64_t query_row = 0, query_rows = 0, key_row = 0, key_rows = 0;
  PagedRows keys, values;
  int64_t key_position = 0;
};

/// Rotary positions of keys that lie unturned in a cache: pair c of each head's first channels turns by position *
/// frequencies[c] when it is read, as kernels::rope turns it.
struct KeyTurn {
  std::vector<double> frequencies;  // [pairs]
  bool interleaved = false;         // pairs (2c, 2c+1); otherwise (c, c + pairs)
};

/// Which keys a query may see, beyond being in its segment. `causal`: key position <= query position.
/// `window` > 0: also key position > query position - window (and < query position + window unless
/// causal).
struct AttentionMask {
  bool causal = false;
  int64_t window = 0;
};

/// Which tiles of keys the tiles of queries of a head may see, beside its mask. Tiles lie side by side from a segment's
/// first query and first key on.
struct TileMask {
  static constexpr int64_t kQueries = 32, kKeys = 64;  // of a tile
  /// The pairs of a tile that meet: bit i of word j is for query i and key j of the tile.
  using Rule = std::array<uint32_t, kKeys>;
  struct Visits {
    std::vector<int32_t> first;  // [query tiles + 1]
    std::vector<int32_t> keys;   // query tile t sees key tiles keys[first[t]] to keys[first[t + 1] - 1], ascending
    std::vector<int32_t> rule;   // of each of these, which of `rules` it has; -1: all pairs meet. Empty: all -1
    std::vector<Rule> rules;
    bool sees(int64_t query, int64_t key) const;
  };
  std::vector<std::shared_ptr<const Visits>> visits;  // [segments * heads], segment by segment; null: all tiles
};

/// Which pairs of queries and keys meet: by a rule for all heads, by one for each query head, or also by tiles.
struct AttentionPattern {
  AttentionMask mask;
  std::vector<AttentionMask> heads;       // [query heads] in place of `mask`; empty: all have it
  std::shared_ptr<const TileMask> tiles;  // null: all
  const AttentionMask& of(int64_t head) const { return heads.empty() ? mask : heads[size_t(head)]; }
};

/// What is added to the scaled logits of a query and a key, or multiplies their weight; all that is given is added up.
/// The query stands at position p and the key at position j of the segment's keys, so that t = p - j is their distance.
/// Tensors are f32 (f64 for f64).
struct AttentionBias {
  Tensor table;       // [W, heads]: row clamp(t - first) of it
  Tensor rows;        // [N, heads*R]: number clamp(t - first) of the R of a query and head
  int64_t first = 0;  // distances beyond a table have its first or last number
  Tensor columns;     // [S, heads*C]: number clamp(t - first) of the C of a key and head
  Tensor rates;       // [1, heads] or [N, heads]: - rate |x|, or - rate x^2 if squared, with x = centre - j
  Tensor centres;     // [N, heads], in positions of keys; none: p
  bool squared = false;
  /// A number of each pair, key by key: those of segment s are [key_rows, query_rows] from pair_offsets[s] on. -inf
  /// hides. No gradient goes to them.
  Tensor pairs;  // [P]
  std::vector<int64_t> pair_offsets;
  std::vector<uint8_t> pair_heads;  // [heads]: which heads have them; empty: all
  bool pairs_multiply = false;      // they multiply the capped logits, before anything is added
  /// In place of logits the weights change, which are not normalised again: the exponential of what is added up
  /// multiplies them, and the numbers of pairs as they are, so that 0 hides. What multiplies must be finite.
  bool multiplies_weights = false;
  bool defined() const {
    return table.defined() || rows.defined() || columns.defined() || rates.defined() || pairs.defined();
  }
  bool has_pairs(int64_t head) const { return pairs.defined() && (pair_heads.empty() || pair_heads[size_t(head)]); }
};

/// out[n, head, :] = sum_s softmax_s(pairs cap(scale q[n,head,:] . k[s,group,:]) + bias) v[s,group,:], group = head /
/// (heads / kv_heads), cap(x) = softcap tanh(x / softcap), or x where softcap is 0; where the bias multiplies weights
/// it does so behind the softmax, pairs exp(bias) softmax_s(cap(..)). q [N, heads*head_dim], k [S, kv_heads*head_dim],
/// v [S, kv_heads*value_dim], out [N, heads*value_dim]; k and v may be the same tensor. lse [N, heads] f32 (f64 for
/// f64), optional: the log of the sum of exponentials of the logits, kept for the gradient. A row that sees nothing
/// gives 0 and lse = -inf. Rows of out and lse that no segment covers are left as they are; no two segments may share a
/// query row. Softmax and sums in f32 for f32 and bf16. Results of a sequence do not depend on the other segments, to
/// the bit.
struct AttentionArgs {
  Tensor q, k, v, out, lse;
  std::vector<AttentionSegment> segments;
  int64_t heads = 1, kv_heads = 1, head_dim = 0, value_dim = 0;
  double scale = 1, softcap = 0;
  AttentionMask mask;
  std::vector<AttentionMask> head_masks;  // AttentionPattern::heads
  std::shared_ptr<const TileMask> tiles;
  std::shared_ptr<const KeyTurn> turn;  // of the keys of segments with their own; null: keys are as they lie
  AttentionBias bias;
  /// f32 (f64 for f64) [N, heads*U], optional, set: the sum of the weights, multiplied, of a query and head at clamp(t
  /// - shares_first) = u, for values that depend on the distance.
  Tensor shares;
  int64_t shares_first = 0;
};
Cost cost(const AttentionArgs& args);
void attention(const AttentionArgs& args);

/// Gradients for the same arguments (segments without own keys). dq, dk, dv have the shapes of q, k, v;
/// each is set, or added to when its flag says so; for bf16 each may be bf16 or f32. Rows that no segment
/// covers are 0, or kept when added to. No two segments may share a key row. When k
/// and v are the same tensor, dk and dv are still two tensors.
struct AttentionGradArgs {
  AttentionArgs forward;  // with out and lse filled
  Tensor dout, dq, dk, dv;
  bool accumulate_dq = false, accumulate_dk = false, accumulate_dv = false;
  /// Of the bias, each none when nobody wants it.
  Tensor dtable, drows, dcolumns, drates, dcentres;
  bool accumulate_dtable = false, accumulate_drows = false, accumulate_dcolumns = false, accumulate_drates = false,
       accumulate_dcentres = false;
  Tensor
      dshares;  // like shares: of what came of them; `out` must then be the rows that dout belongs to, with their part
  Tensor dlse;  // like lse: of what came of it; none: nothing did
};
Cost cost(const AttentionGradArgs& args);
void attention_grad(const AttentionGradArgs& args);

}  // namespace lithe::kernels
