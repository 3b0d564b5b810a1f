// Structural probes: a linear map of frozen rows under which squared distances are those of a tree, or squared lengths
// the depths in it [Hewitt and Manning 2019].
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/ops/sequences.h"

namespace lithe::probe {

/// Numbers of a tree for each sentence: distances [m, m] or depths [m].
using Gold = std::vector<std::span<const int32_t>>;

// spec: probe.structural_distance | analysis | squared distances of mapped rows against those of a tree | TB Eq
// 6.62-6.63
/// The mean over sentences of |s|^-2 times the sum over i, j of |w(i,j) - |b_i - b_j|^2|, for the mapped rows
/// b [N, k] = h A. Differentiable (0 where they are equal); a scalar [1], of rows in f32 or f64.
Var distance_loss(const Var& b, const Sequences& sentences, const Gold& distances);
/// Squared distances [m, m] of rows [m, k].
std::vector<double> squared_distances(const Tensor& b);

// spec: probe.structural_depth | analysis | squared lengths of mapped rows against depths in a tree | TB 6.2.5
/// The mean over sentences of |s|^-1 times the sum over i of |depth(i) - |b_i|^2|.
Var depth_loss(const Var& b, const Sequences& sentences, const Gold& depths);
/// Squared lengths [m].
std::vector<double> squared_lengths(const Tensor& b);

}  // namespace lithe::probe
