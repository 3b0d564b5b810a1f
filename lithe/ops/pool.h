// One row a sequence.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// x [N,C] -> [B,C]. `kind`: cls (each sequence's first row), last, mean, or max (column by column). No sequence may be
/// empty (spec app.text_encode).
Var pool(const Var& x, const Sequences& sequences, const std::string& kind);

/// The kinds that pool() knows.
inline const std::vector<std::string> kPoolings{"cls", "last", "mean", "max"};

}  // namespace lithe
