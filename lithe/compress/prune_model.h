// The smaller model without what was taken out.
#pragma once

#include "lithe/model/prunable.h"

namespace lithe {

/// The configuration of the smaller model. Mixers and feed-forward layers that lose all their units are left out, and
/// layers that are equal stay one description.
ModelConfig pruned_config(const Model& model, const PruneKept& kept);

/// The smaller model with the values of what stays. Fails (usage) where a part does not shrink so, naming the tensor.
std::unique_ptr<Model> prune(const Model& model, const PruneKept& kept);

}  // namespace lithe
