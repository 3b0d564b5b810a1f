// Whether a model grows without a change of what it predicts.
#pragma once

#include <optional>

#include "lithe/model/grow.h"

namespace lithe {

/// How a model grows and keeps its predictions: to so many times the width, or to so many layers, of which the new
/// ones begin by adding zero.
struct KeptGrowth {
  int64_t width = 0, layers = 0;  // one of them
  bool compared = true;           // false: new layers add what the copied ones do, and only have to have their numbers
  ModelConfig grown(const ModelConfig& config) const {
    return layers ? deepened(config, layers) : widened(config, width);
  }
};

/// Fails (usage), naming the part, where the model that `config` describes does not grow so: with random weights,
/// before any are trained. A model of too many parameters to be made for that is not asked.
void check_growth(const ModelConfig& config, const KeptGrowth& how, const char* operation);
/// The same of a trained model and the one grown from it, whose predictions differ by `apart`
/// (difference_of_predictions).
void check_grown_alike(const ModelConfig& config, const KeptGrowth& how, double apart, const char* operation);

}  // namespace lithe
