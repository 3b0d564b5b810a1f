// What plan.cpp prepares once for the kernels of every instruction set: addresses, and a division
// of the work into parts. Plain data only, so that nothing here is compiled per set.
//
// A result never depends on the division: each query (forward), and each query and each key (gradient),
// sums in an order that its own segment fixes.
#pragma once

#include "lithe/kernels/attention/attention.h"

namespace lithe::kernels {

// Sizes of tiles, the same on every instruction set, because the workspace is planned without one.
constexpr int kPanel = 32;    // queries side by side in the lanes of a tile
constexpr int kKeyTile = 64;  // keys of a tile, which lies within a page
static_assert(kPageRows % kKeyTile == 0);
constexpr int kBlock = 128;      // queries that share one visit to the keys in the gradient,
constexpr int kLongBlock = 256;  // and at most in the forward pass
constexpr int kSplits = 16;      // parts of a decode cache that may be read in parallel,
constexpr int kSplitKeys = 32;   // and the keys of such a part are a multiple of this
static_assert(kKeyTile % kSplitKeys == 0);
constexpr int kTurned = 16;                               // rows that are turned or made f32 together in decoding
constexpr int64_t kTileWidth = 32, kWidestOnTiles = 256;  // head widths that matrix tiles take: multiples, and at most

/// Keys or values of a span: row s is row s % page_rows of pages[s / page_rows]. `scales`: of i8 pages, and of u8
/// ones, there two bf16 in place of each float; else null.
struct AttentionRows {
  const void* const* pages;
  const float* const* scales;
  int64_t page_rows;
};

/// A segment with addresses: q, out, lse, dout, dq at its first query, k, v, dk, dv at its first key.
/// `splits` > 0: few queries, many keys; the visible keys are read in so many pieces of `split_keys`.
struct AttentionSpan {
  const void *q, *k, *v;  // k, v: of segments without pages of their own
  AttentionRows keys, values;
  void* out;
  float* lse;
  const void* dout;
  void *dq, *dk, *dv;
  int64_t query_rows, key_rows;
  int64_t query_row, key_row, first_block;  // of the call: its first query and key, its first block of kBlock queries
  int64_t splits, split_keys;
  int64_t key_position;  // of the first key
};

/// TileMask::Visits of a span and head; `first` is null where all tiles are visited. rules: kKeyTile words each.
struct AttentionVisits {
  const int32_t *first, *keys, *rule;  // rule: null where no tile has one
  const uint32_t* rules;
};
static_assert(TileMask::kQueries == kPanel && TileMask::kKeys == kKeyTile);

/// AttentionBias and shares, with their gradients, as addresses; null where there is none.
struct AttentionExtras {
  bool bias, gradients;  // some bias of logits, some gradient of a bias
  bool multiplies;       // what is given multiplies weights: pairs as they are, the exponential of the rest
  bool squared;
  const float* table;  // [heads][table_rows]
  const float *rows, *columns, *rates, *centres;
  const float* pairs;           // key by key, of all spans
  const int64_t* pair_offsets;  // [spans]
  const uint8_t* pair_heads;    // [heads], or null
  bool pairs_multiply, pairs_add;
  int64_t table_rows, row_numbers, column_numbers, first,
      rate_stride;  // rate_stride: heads, or 0 where all queries have one row
  float* shares;
  int64_t share_numbers, shares_first;
  float* dtable;             // [blocks][heads][table_rows] from zeros
  float *drows, *dcolumns;   // added to
  float *drates, *dcentres;  // [N, heads] from zeros
  const float *dshares, *dlse;
};

/// KeyTurn as addresses; no frequencies where keys are as they lie.
struct AttentionTurn {
  const double* frequencies;  // [pairs]
  int64_t pairs;
  bool interleaved;
  /// Numbers of a row of sines, and of cosines: whole vectors, also of pairs that are neighbours.
  constexpr int64_t row() const { return (pairs * (interleaved ? 2 : 1) + 15) / 16 * 16; }
};

/// A piece of work on one span.
struct AttentionTask {
  enum Kind : int32_t {
    tiles,   // forward: queries [begin, end) of `head`, at most kLongBlock
    decode,  // forward: splits [begin, end) of the keys, all heads
    whole,   // gradient: everything of kv head `head`
    query,   // gradient: dq of queries [begin, end) of `head`
    key,     // gradient: dk and dv of keys [begin, end) of kv head `head`
  };
  Kind kind;
  int32_t span;
  int64_t head, begin, end;
};

/// Where things lie in a part's workspace, in floats.
struct AttentionSpace {
  int64_t q, out, stats, p, k, v, shares;  // forward by tiles
  int64_t vectors, logits, multipliers, state,
      partials;                      // decode; `partials` holds kSplits states of `state_floats`
  int64_t turn, turned;              // angles; kTurned rows of all heads
  int64_t state_floats, lanes, row;  // lanes: query vectors, rounded up; row: value_dim, rounded up
  int64_t dout, q_rows, dout_rows, dq, dp, dk, dv, key_rows;  // gradient; dk and dv hold `key_rows` keys
  int64_t floats;                                             // of a part
};

class AttentionPlan;

struct AttentionCall {
  const AttentionArgs* args;
  const AttentionGradArgs* grad_args;  // null in the forward pass
  DType dtype, key_dtype, dq_type, dk_type, dv_type;
  int64_t heads, kv_heads, head_dim, value_dim;
  float scale, softcap;             // softcap 0: none
  AttentionMask mask;               // of all heads, or what some head of head_masks sees
  const AttentionMask* head_masks;  // [heads], or null
  const AttentionVisits* visits;    // [spans][heads], or null
  AttentionExtras extras;
  AttentionTurn turn;
  const AttentionPlan* plan;  // with what the gradient calls when its tasks are done:
  void (*finish_gradients)(const AttentionPlan& plan);
  const AttentionSpan* spans;
  const AttentionTask* tasks;
  bool tiles, decodes;                        // some tasks of the forward pass are of that kind
  bool only_decodes;                          // the others are done
  void (*decode)(const AttentionCall& call);  // which matrix tiles call when they have done the others
  const int64_t* first_task;                  // [parts + 1]: part p does tasks [first_task[p], first_task[p + 1])
  int64_t parts;
  AttentionSpace space;
  float* workspace;  // [spaces, space.floats], 64-byte aligned
  int64_t spaces;    // one a thread

  /// Of a part: its own, for what decoding leaves there, or, where parts are more, that of the thread.
  [[gnu::always_inline]] float* space_of(int64_t part, int64_t thread) const {
    return workspace + (parts > spaces ? thread : part) * space.floats;
  }
};

}  // namespace lithe::kernels

LITHE_DECLARE_CPU(attention_forward, AttentionCall)
LITHE_DECLARE_CPU(attention_backward, AttentionCall)
LITHE_DECLARE_TILES(attention_tiles, AttentionCall)
LITHE_DECLARE_TILES(attention_tiles_backward, AttentionCall)
