// Attention over sequences whose tokens are divided among ranks.
#pragma once

#include "lithe/ops/attention.h"
#include "lithe/parallel/layout.h"

namespace lithe {

/// How many rows of each sequence the ranks have: [ranks][sequences]. On meta tensors as many as here.
std::vector<std::vector<int64_t>> rows_of_ranks(const Sequences& mine, const Group& ranks);

/// attend() of whole sequences to themselves, of which each rank has the queries, keys and values of its tokens, in the
/// order of ranks. Blocks of keys and values go around the ring of ranks, and so do their gradients; each rank joins
/// what its queries take from them by the sums of exponentials, so that no rank has all keys [Liu et al. 2023].
/// Options: heads, scale, softcap and the mask `causal`; fails (usage) on others.
Var ring_attend(const Var& q, const Var& k, const Var& v, const Sequences& mine, const AttendOptions& options,
                const Group& ranks);

}  // namespace lithe
