// One row a sequence.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// x [N,C] -> [B,C]. `kind`: cls (each sequence's first row), last, mean, or max (column by column). No sequence may be
/// empty (spec app.text_encode).
Var pool(const Var& x, const Sequences& sequences, const std::string& kind);

/// The largest, column by column, of the rows from[offsets[b]] to from[offsets[b+1]-1] of x: x [N,C] -> [B,C]. Rows may
/// be read by several sequences, or by none; no sequence may be empty.
Var max_pool_rows(const Var& x, std::vector<int64_t> from, std::vector<int64_t> offsets);

/// The kinds that pool() knows.
inline const std::vector<std::string> kPoolings{"cls", "last", "mean", "max"};

}  // namespace lithe
