// Training for few bits: the forward pass reads the numbers that `lithe quantize` would write (spec hpc.qat).
#pragma once

#include "lithe/model/model.h"
#include "lithe/recipe/train_config.h"

namespace lithe {

/// From now on products and look-ups read the matrices of a model rounded as train.rounding says, and products their
/// rows rounded; masters stay as they are. Learned steps [Esser et al. 2020] are s = sign exp(10 t), a t for each
/// output or group, and get the gradient of s by the distance of w / s from its integer, or by the end of the range
/// where it is clipped.
class RoundedWeights {
 public:
  /// Nothing happens where `config` rounds no weights. Learned steps are added to `parameters`, which must live as long
  /// as the model. Fails (usage) when `keep` names nothing, or nothing is left to round.
  RoundedWeights(Model& model, const RoundedTraining& config, Parameters& parameters);

  /// After the model's weights are there for the first time: learned steps become the searched ones.
  void begin();
  /// After weights and steps were loaded.
  void refresh() { model_.parameters().refresh_views(); }
  /// Where steps are learned: the weights as they are read, rounded, and beside them the steps, signed, f32, by the
  /// names of the parameters.
  void save(const Path& file) const;
  /// What save() wrote beside this file of weights. Fails (usage) where it is missing.
  static std::map<std::string, Tensor> learned_steps(const Path& weights);

 private:
  class Rounded;
  Model& model_;
  std::vector<std::shared_ptr<Rounded>> views_;
  bool learns_ = false;
};

}  // namespace lithe
