// Training for few bits: the forward pass reads the numbers that `lithe quantize` would write (spec hpc.qat).
#pragma once

#include "lithe/model/model.h"
#include "lithe/recipe/train_config.h"

namespace lithe {

/// From now on products and look-ups read the matrices of `model` rounded as `config` says, and products their rows
/// rounded; masters stay as they are. Nothing happens where it rounds no weights. Fails (usage) when `keep` names
/// nothing, or nothing is left to round.
void read_rounded(Model& model, const RoundedTraining& config);

}  // namespace lithe
