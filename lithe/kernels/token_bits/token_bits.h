// Codes of vocabulary-free tokens, and their bits as rows of numbers (spec emb.hash_add, emb.hash_proj,
// baseline.proformer).
#pragma once

#include "lithe/base/token_code.h"
#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

enum class BitForm {
  plain,         // 0 and 1: `bits` columns
  one_hot,       // columns for the bits that are 0, then as many for those that are 1
  standardized,  // less their mean, over their norm or 1e-8 where that is larger: constant bits give zeros
};

/// Columns of a form.
constexpr int64_t columns_of(BitForm form, int64_t bits) { return form == BitForm::one_hot ? 2 * bits : bits; }

/// out[n,:] = scale * the bits of code n in one of the forms; rows of special tokens are zeros. codes i32
/// [N, code_width(bits)], out [N, columns_of(form, bits)]. Bits of the payload beyond `bits` are not read.
struct TokenBitsArgs {
  Tensor codes, out;
  int64_t bits = 0;
  BitForm form = BitForm::plain;
  double scale = 1;
};
Cost cost(const TokenBitsArgs& args);
void token_bits(const TokenBitsArgs& args);

/// codes must be i32 [N, width] of a payload of `bits` bits; rows: what must have N rows beside them.
void check_codes(const char* op, const Tensor& codes, int64_t bits, const Tensor& rows);

}  // namespace lithe::kernels
