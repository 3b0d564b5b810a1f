// Recipe section `train`.
#pragma once

#include "lithe/base/fields.h"
#include "lithe/parallel/layout.h"
#include "lithe/tensor/dtype.h"

namespace lithe {

/// Section `train.growth`: a run that begins small. Before the step after steps[i] the model becomes one of layers[i]
/// layers, or of width[i] times the channels of the first.
struct GrowthConfig {
  std::vector<int64_t> steps, layers, width;
  std::string optimizer_state = "reset";
  bool zero_new_residual = false;
  double noise = 0.01;
  void fields(Fields& f);
  void validate() const;
  /// Growths that a model after `step` steps, about to take the next one, has behind it.
  int64_t stage(int64_t step) const;
};

/// Section `train.rounding`: training for few bits.
struct RoundedTraining {
  std::string weights = "none";
  std::string steps = "searched";
  int64_t group_size = 32, activation_bits = 0;
  std::vector<std::string> keep;
  bool learns_steps() const { return on() && steps == "learned"; }
  void fields(Fields& f);
  void validate() const;
  bool on() const { return weights != "none"; }
};

/// Section `train.loss_scaling`: gradients of a loss that is multiplied, so that small ones do not vanish in few bits.
struct LossScaling {
  std::string type = "none";
  double initial = 65536;
  int64_t growth_interval = 2000;
  void fields(Fields& f);
  bool on() const { return type != "none"; }
};

/// Section `train.adapters`: small updates of a model whose parameters stay.
struct AdapterConfig {
  std::string type = "none";
  int64_t rank = 8;
  double alpha = 16;
  std::vector<std::string> targets{"*.mixer.heads.q.weight", "*.mixer.heads.v.weight"}, also;
  void fields(Fields& f);
  bool on() const { return type != "none"; }
};

struct TrainConfig {
  int64_t max_steps = 0, max_tokens = 0;
  double num_train_epochs = 0, max_time = 0;  // minutes
  int64_t batch_tokens = 8192, gradient_accumulation_steps = 1;
  double learning_rate = 1e-3, min_learning_rate = 0;
  std::string lr_scheduler_type = "cosine";
  int64_t warmup_steps = 0;
  double warmup_ratio = 0, decay_ratio = 0.1;
  double weight_decay = 0.1, adam_beta1 = 0.9, adam_beta2 = 0.95, adam_epsilon = 1e-8, max_grad_norm = 1.0;
  int64_t num_cycles = 1;
  double label_smoothing = 0;
  int64_t early_stopping_patience = 0, average_checkpoints = 0;
  double ema_decay = 0;
  std::vector<std::string> freeze;
  PartChoice objective{"clm", {}};
  Node auxiliary_objectives;  // by names of the recipe's
  GrowthConfig growth;
  RoundedTraining rounding;
  LossScaling loss_scaling;
  AdapterConfig adapters;
  ParallelConfig parallel;
  std::string precision = "f32", optimizer_states = "f32";
  bool gradient_checkpointing = false, optimizer_in_backward = false, carry_state = false;
  int64_t seed = 1;
  int64_t logging_steps = 10, eval_steps = 0, save_steps = 0, save_total_limit = 2, sample_steps = 0;
  double loss_watchdog_threshold = 0;
  int64_t loss_watchdog_patience = 10;
  double spike_deviations = 0;
  int64_t spike_window = 100;

  void fields(Fields& f);
  void validate(int64_t sequence_length) const;
  /// auxiliary_objectives, resolved. Fails (usage) on a name or a part that cannot stand there.
  std::vector<std::pair<std::string, PartChoice>> auxiliaries() const;
  DType compute() const { return dtype_named(precision); }
  DType parameter_dtype() const { return wide_of(compute()); }
  int64_t micro_batch_tokens() const { return batch_tokens / gradient_accumulation_steps; }
  /// The step at which training ends by max_steps, max_tokens and num_train_epochs, the first that is
  /// reached; 0 when only the clock ends it. `batches_per_epoch`: micro-batches.
  int64_t total_steps(int64_t batches_per_epoch) const;
};

}  // namespace lithe
