// Explicit maps of tokens to tokens, for mixers that share one map between sequences or learn it. (Attention of a
// sequence to itself never stores its map: attention.h.)
#pragma once

#include "lithe/kernels/attention/attention.h"

namespace lithe::kernels {

/// What an entry of a map is made of a logit: the softmax over what its row sees, or the logit itself.
enum class MapKind { softmax, plain };

/// map[h,i,j] = f(scale logits[h,i,j]) where row i may see column j, else 0. logits [H*T,T] in f32 (f64 for f64), map
/// [H*T,T] f32, bf16 (f64 for f64); they may be one tensor.
struct TokenMapArgs {
  Tensor logits, map;
  MapKind kind = MapKind::softmax;
  double scale = 1;
  AttentionMask mask;
};
Cost cost(const TokenMapArgs& args);
void token_map(const TokenMapArgs& args);

/// The gradient of the logits from `dmap`, both f32 (f64 for f64), [H*T,T]; they may be one tensor. softmax: dlogits =
/// scale map (dmap - sum_j map dmap). Set, not added to.
struct TokenMapGradArgs {
  Tensor map, dmap, dlogits;
  MapKind kind = MapKind::softmax;
  double scale = 1;
  AttentionMask mask;
};
Cost cost(const TokenMapGradArgs& args);
void token_map_grad(const TokenMapGradArgs& args);

/// out[b,r,c] = x[b,r,c] (added to when told) for blocks x rows x cols numbers; each side has its own distance between
/// blocks and between rows, in elements. Cuts blocks out of maps and turns token-major rows into head-major ones.
struct BlockCopyArgs {
  Tensor x, out;
  int64_t blocks = 0, rows = 0, cols = 0;
  int64_t x_block = 0, x_row = 0, out_block = 0, out_row = 0;
  bool accumulate = false;
};
Cost cost(const BlockCopyArgs& args);
void block_copy(const BlockCopyArgs& args);

}  // namespace lithe::kernels
