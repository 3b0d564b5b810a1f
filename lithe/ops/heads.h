// Forming many heads from one (spec mixer.mhe_add, mixer.mhe_mul, mixer.sha).
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// x [N,C] -> [N, heads*C]: head j is x * scale[j] + shift[j]. scale and shift [heads*C], either may be undefined.
Var spread_heads(const Var& x, int64_t heads, const Var& scale = {}, const Var& shift = {});

}  // namespace lithe
