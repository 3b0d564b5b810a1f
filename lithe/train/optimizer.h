// AdamW over the parameters of a model and of its objective that are not frozen, with global-norm clipping (spec
// train.adam).
#pragma once

#include "lithe/model/model.h"
#include "lithe/recipe/train_config.h"

namespace lithe {

class AdamW {
 public:
  /// Splits masters that are read in bf16, which costs two bytes a number less and changes none of their numbers.
  /// `moments` false: of what is saved before the first step, whose moments are zeros: they get no memory, and nothing
  /// is split.
  AdamW(const std::vector<Parameters*>& parameters, const TrainConfig& config, bool moments = true);
  AdamW(Parameters& parameters, const TrainConfig& config) : AdamW(std::vector{&parameters}, config) {}

  /// The norm of all gathered gradients; not finite when one is.
  double gradient_norm() const;
  /// Of the gradients of all ranks of a divided model, each number once; all of them call it. null: of these.
  double gradient_norm(const Division* division) const;
  /// Updates every parameter from its gradient, scaled by min(1, max_grad_norm / norm), and frees the gradients. `step`
  /// counts from 1. Gradients that are `loss_scale` times what they should be are divided by it; `norm` is of those
  /// that they should be.
  void step(int64_t step, double learning_rate, double norm, double loss_scale = 1);
  void drop_gradients();

  /// m and v by name ("m.<parameter>"), and the scales of those in 8 bits ("m_scale.<parameter>"), for checkpoints.
  std::map<std::string, Tensor> state() const;

 private:
  struct Slot {
    Parameter* parameter;
    Tensor m, v, m_scale, v_scale;
  };
  std::vector<Parameters*> parameters_;
  std::vector<Slot> slots_;
  TrainConfig config_;

  void add(Parameter& parameter, bool moments);
};

}  // namespace lithe
