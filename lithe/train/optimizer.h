// AdamW over the parameters of a model and of its objective that are not frozen, with global-norm clipping (spec
// train.adam).
#pragma once

#include <optional>

#include "lithe/model/model.h"
#include "lithe/model/tensor_stream.h"
#include "lithe/recipe/train_config.h"
#include "lithe/train/rank_sum.h"

namespace lithe {

class AdamW {
 public:
  /// Splits masters that are read in bf16, which costs two bytes a number less and changes none of their numbers.
  /// `moments` false: of what is saved before the first step, whose moments are zeros: they get no memory, and nothing
  /// is split.
  /// `ranks`: among which the moments are shared out, where these are sharded; must outlive this. All of them call
  /// gradient_norm(), step() and with_whole_state() then.
  AdamW(const std::vector<Parameters*>& parameters, const TrainConfig& config, bool moments = true,
        const RankSum* ranks = nullptr);
  AdamW(Parameters& parameters, const TrainConfig& config) : AdamW(std::vector{&parameters}, config) {}

  /// The norm of all gathered gradients; not finite when one is.
  double gradient_norm() const;
  /// Of the gradients of all ranks of a divided model, each number once; all of them call it. null: of these.
  double gradient_norm(const Division* division) const;
  /// Updates every parameter from its gradient, scaled by min(1, max_grad_norm / norm), and frees the gradients. `step`
  /// counts from 1. Gradients that are `loss_scale` times what they should be are divided by it; `norm` is of those
  /// that they should be.
  void step(int64_t step, double learning_rate, double norm, double loss_scale = 1);
  /// With train.optimizer_in_backward: updates the parameters of a layer, whose gradients are complete, and frees
  /// these, while the layers below have none yet. gradient_norm() still counts them; step() does the rest. From a
  /// gradient on that is not finite nothing is updated any more.
  void step_layer(int64_t layer, int64_t step, double learning_rate);
  void drop_gradients();
  /// Where train.ema_decay is given: moves the averages of the weights after step `step`, and exchanges the weights
  /// with them, twice for nothing.
  void average(int64_t step);
  void exchange();
  bool averages() const { return config_.ema_decay > 0; }

  /// m and v by name ("m.<parameter>"), and the scales of those in 8 bits ("m_scale.<parameter>") and the averages
  /// ("average.<parameter>") where there are such, for checkpoints. Of sharded ones, this rank's.
  std::map<std::string, Tensor> state() const;
  /// Calls `write` with the moments of all ranks on the first, while the others send them; where they are not sharded,
  /// with state(). What it is given must be read once, in the order of names (stream_safetensors).
  void with_whole_state(const std::function<void(const std::map<std::string, PendingTensor>&)>& write) const;
  bool sharded() const { return ranks_ != nullptr; }

 private:
  struct Slot {
    Parameter* parameter;
    Tensor m, v, m_scale, v_scale, average;
    int rank = 0;                   // that has the moments; elsewhere they have no numbers
    std::optional<double> squares;  // of a gradient of this step that step_layer() has taken
    std::map<std::string, Tensor> named() const;
  };
  std::vector<Parameters*> parameters_;
  std::vector<Slot> slots_;
  TrainConfig config_;
  const RankSum* ranks_ = nullptr;  // null: not sharded

  void move(Slot& slot, int64_t step, double learning_rate, double scale);
  bool here(const Slot& slot) const { return !ranks_ || slot.rank == ranks_->rank(); }
  void add(Parameter& parameter, bool moments);
};

}  // namespace lithe
