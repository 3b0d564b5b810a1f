// Sequences made shorter by a map over their tokens.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// Each sequence as R rows: y_b = map[0:T_b]^T x_b, with map [T_max, R] (token t's share in each row) and x [N, C]; the
/// result is [B*R, C], sequence after sequence. Fails when a sequence is longer than the map.
Var project_tokens(const Var& map, const Var& x, const Sequences& sequences);

}  // namespace lithe
