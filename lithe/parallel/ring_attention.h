// Attention over sequences whose tokens are divided among ranks.
#pragma once

#include "lithe/ops/attention.h"
#include "lithe/parallel/layout.h"

namespace lithe {

/// [ranks][sequences].
using RowsOfRanks = std::vector<std::vector<int64_t>>;
/// Under this key layers find them in a Pass (Pass::once).
inline constexpr const char* kRowsOfRanks = "rows of ranks";
/// How many rows of each sequence the ranks have. On meta tensors as many as here. All ranks call it.
RowsOfRanks rows_of_ranks(const Sequences& mine, const Group& ranks);

/// attend() of whole sequences to themselves, of which each rank has the queries, keys and values of its tokens, in the
/// order of ranks. Blocks of keys and values go around the ring of ranks, and so do their gradients; each rank joins
/// what its queries take from them by the sums of exponentials, so that no rank has all keys [Liu et al. 2023]. `rows`:
/// rows_of_ranks(mine, ranks).
/// Options: heads, scale, softcap and the mask `causal`; fails (usage) on others.
Var ring_attend(const Var& q, const Var& k, const Var& v, const Sequences& mine, const RowsOfRanks& rows,
                const AttendOptions& options, const Group& ranks);

}  // namespace lithe
