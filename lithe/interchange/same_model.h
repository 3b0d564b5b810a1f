// Whether two configurations make the same function of the same weights.
#pragma once

#include <string>
#include <vector>

#include "lithe/model/config.h"

namespace lithe {

/// What differs, one line each: "layers.0.mixer.output.type is hadamard, not dense". Dropout, initialisation and names
/// of layers make no difference; defaults count as what they stand for. Empty: the same.
std::vector<std::string> model_differences(const ModelConfig& is, const ModelConfig& wanted);

}  // namespace lithe
