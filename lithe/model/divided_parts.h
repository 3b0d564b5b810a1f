// What joins the shares of a divided model, as parts around parts.
#pragma once

#include <memory>

#include "lithe/base/fields.h"
#include "lithe/nn/sub_layer.h"
#include "lithe/parallel/layout.h"

namespace lithe {

struct ModelConfig;

/// Fails (usage) where no rule of division is for such a model. What only single parts show is refused when they are
/// made.
void check_divisible(const ParallelConfig& parallel, const ModelConfig& config);

/// The sum of the shares of a sub-layer, one a rank, which all read the same rows [Shoeybi et al. 2019].
std::unique_ptr<SubLayer> tensor_parallel(std::unique_ptr<SubLayer> share, const Group& ranks);

/// A mixer whose rows are divided among ranks in training: each runs it on all of them, and goes on with its own. Fails
/// (usage) where the mixer, which is called `where`, reads more than rows.
std::unique_ptr<SubLayer> on_gathered_rows(std::unique_ptr<SubLayer> mixer, const Group& ranks,
                                           const std::string& where);
/// An attention that hands keys and values around a ring instead (parallel/ring_attention.h).
bool rings(const PartChoice& mixer, const Mixer::Args& args);

}  // namespace lithe
