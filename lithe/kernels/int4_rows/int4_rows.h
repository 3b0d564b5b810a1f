// Rows of heads in 4 bits, with a lowest number and a step for each group of channels, and back (spec hpc.ptq,
// asymmetric): the keys and values of a decode cache.
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// Where things lie in a row of `heads` heads of `size` channels. Channels come in groups of kGroup, the last of a head
/// with what is left. A group of n takes ceil(n/2) bytes: byte i has channel i below channel i + ceil(n/2). Each head
/// has bytes and groups of its own.
struct Int4Rows {
  static constexpr int64_t kGroup = 32;
  int64_t heads = 1, size = 0;

  [[gnu::always_inline]] constexpr int64_t head_bytes() const { return (size + 1) / 2; }
  [[gnu::always_inline]] constexpr int64_t head_groups() const { return (size + kGroup - 1) / kGroup; }
  [[gnu::always_inline]] constexpr int64_t bytes() const { return heads * head_bytes(); }  // of codes
  [[gnu::always_inline]] constexpr int64_t scales() const {
    return 2 * heads * head_groups();
  }  // bf16: lowest number, step, group by group
};

/// codes[n,c] = round((x[n,c] - low) / step), in [0, 15], halves up. low: the smallest number of the group of a row and
/// head, rounded down to bf16; step: (the largest - low) / 15, rounded up to bf16, 0 where that span is below 2^-100. A
/// group with an infinity or NaN, or a span that f32 cannot hold, has NaN for both. x f64, f32 or bf16 [N,
/// heads*size], codes u8 [N, Int4Rows::bytes()], scales bf16 [N, Int4Rows::scales()].
struct QuantizeInt4RowsArgs {
  Tensor x, codes, scales;
  int64_t heads = 1;
};
Cost cost(const QuantizeInt4RowsArgs& args);
void quantize_int4_rows(const QuantizeInt4RowsArgs& args);

/// out[n,c] = low + step * codes[n,c], rounded once to f32, then to the type of out: f64, f32 or bf16.
struct DequantizeInt4RowsArgs {
  Tensor codes, scales, out;
  int64_t heads = 1;
};
Cost cost(const DequantizeInt4RowsArgs& args);
void dequantize_int4_rows(const DequantizeInt4RowsArgs& args);

}  // namespace lithe::kernels
