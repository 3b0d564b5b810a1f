#include "lithe/recipe/train_config.h"

#include <algorithm>
#include <cmath>

#include "lithe/nn/registry.h"

namespace lithe {

// spec: train.presets | recipes | published training hyperparameters, as recipes/presets/*.yaml | TH
// Tables 2.4, 2.5, 3.11, 3.12, 3.15, 4.9; HP 5.1, Table 2
void TrainConfig::fields(Fields& f) {
  Registry::instance();  // the objective is resolved through it
  f("max_steps", max_steps, "optimiser steps; 0: no limit", at_least(0));
  f("max_tokens", max_tokens, "tokens to train on, in whole steps that do not exceed it; 0: no limit", at_least(0));
  f("num_train_epochs", num_train_epochs, "passes over the corpus; the last batch of each may be short; 0: no limit",
    at_least(0));
  f("max_time", max_time, "minutes of training, resumed parts included; 0: no limit", at_least(0));
  f("batch_tokens", batch_tokens,
    "tokens per optimiser step; translation: source and target tokens together, in whole pairs, so that a step may "
    "have more, by less than the longest pair",
    between(1, 1 << 24));
  f("gradient_accumulation_steps", gradient_accumulation_steps,
    "micro-batches per step, run one after another: less memory, same result up to rounding", between(1, 1 << 24));
  f("learning_rate", learning_rate, "peak learning rate; inverse_sqrt: the factor lr0 of Eq 6.48", at_least(0));
  f("min_learning_rate", min_learning_rate, "final learning rate of linear, cosine, cosine_restarts and wsd",
    at_least(0));
  f("lr_scheduler_type", lr_scheduler_type, "learning rate schedule after warm-up",
    one_of({"constant", "linear", "cosine", "cosine_restarts", "inverse_sqrt", "wsd"}));
  f("warmup_steps", warmup_steps, "steps of linear warm-up from 0", at_least(0));
  f("warmup_ratio", warmup_ratio, "warm-up as a share of all steps, if warmup_steps is 0", between(0, 1));
  f("decay_ratio", decay_ratio,
    "wsd (warm-up, stable, decay): share of all steps, at the end, in which the learning rate falls", between(0, 1));
  f("num_cycles", num_cycles, "cosine_restarts: number of cosine cycles", at_least(1));
  f("weight_decay", weight_decay,
    "decoupled weight decay (AdamW) of matrices and embedding tables, not of biases and norms", at_least(0));
  f("adam_beta1", adam_beta1, "Adam's beta1: decay of the mean of gradients", between(0, 0.9999999));
  f("adam_beta2", adam_beta2, "Adam's beta2: decay of the mean of squared gradients", between(0, 0.9999999));
  f("adam_epsilon", adam_epsilon, "Adam's epsilon, added to the denominator", at_least(0));
  f("max_grad_norm", max_grad_norm, "gradient clipping: largest global norm of the gradients; 0: no clipping",
    at_least(0));
  f("label_smoothing", label_smoothing, "share of the target's probability that is spread over the vocabulary",
    between(0, 0.999));
  f("freeze", freeze,
    "parameters that are not trained, by their names in model.safetensors, with * and ?: [\"embedding.*\", "
    "\"layers.0.*\"]");
  f.part("objective", "objective", objective, "training objective (the loss); `lithe list objective` shows all");
  f.free("auxiliary_objectives", auxiliary_objectives,
         "further objectives on the same batches: {name: objective}, each with its own weight; metrics.jsonl has their "
         "losses by name");
  f.section("growth", growth, "progressive growth: the run begins with a smaller model, which grows in training");
  f.section("rounding", rounding, "quantization-aware training: weights, and the rows that they multiply, are rounded");
  f.section("loss_scaling", loss_scaling, "multiplies the loss, so that small gradients do not underflow");
  f.section("parallel", parallel,
            "how the ranks of a job (mpirun, srun) divide the work; by default each rank has a copy of the model");
  f.section("adapters", adapters,
            "low-rank adapters (LoRA): the model is frozen, only the adapters are trained; adapter/ of the run has "
            "them alone, model.safetensors is merged");
  f("precision", precision, "type of rows and products: f32; bf16 (weights stay f32); f64 (slow, for checks)",
    one_of({"f32", "bf16", "f64"}));
  f("optimizer_states", optimizer_states,
    "type of Adam's moments: f32 (f64 with precision f64), or int8: 8-bit codes with one scale per 256 numbers, for "
    "matrices and tables of at least 4096 numbers",
    one_of({"f32", "int8"}));
  f("gradient_checkpointing", gradient_checkpointing,
    "recompute each layer's activations in the backward pass: less memory, more time");
  f("optimizer_in_backward", optimizer_in_backward,
    "update each layer as soon as the backward pass has its gradients, and free them: gradients of one layer in memory "
    "instead of all, and the same bits. Needs max_grad_norm 0, because the norm of all gradients comes too late");
  f("carry_state", carry_state,
    "truncated backpropagation through time: batch_tokens / gradient_accumulation_steps / data.sequence_length lanes "
    "read the text in order, and each segment continues from the state of the one before, without gradient; the end of "
    "a document resets the state of its lane");
  f("seed", seed, "seed of initial weights, data order and dropout", at_least(0));
  f("logging_steps", logging_steps, "steps between two lines of metrics.jsonl", at_least(1));
  f("eval_steps", eval_steps,
    "steps between evaluations on the held-out data; 0: only at the end, -1: after every epoch", at_least(-1));
  f("early_stopping_patience", early_stopping_patience,
    "stop after this many evaluations in a row without an improvement; 0: never", at_least(0));
  f("save_steps", save_steps, "steps between checkpoints; 0: only at the end", at_least(0));
  f("save_total_limit", save_total_limit, "latest checkpoints to keep, beside the best", at_least(1));
  f("ema_decay", ema_decay,
    "decay d of an exponential moving average of the weights (EMA), which is evaluated and saved as best and averaged: "
    "after each step EMA = d EMA + (1 - d) weights, with (1 + step) / (10 + step) for d while that is smaller; 0: off",
    between(0, 0.999999));
  f("average_checkpoints", average_checkpoints,
    "at the end, averaged/model.safetensors becomes the mean of this many latest checkpoints; 0: off", at_least(0));
  f("sample_steps", sample_steps, "steps between generated samples (section generate); 0: only at the end",
    at_least(0));
  f("loss_watchdog_threshold", loss_watchdog_threshold,
    "stop (exit 3) if the loss stays above this for loss_watchdog_patience steps; 0: off", at_least(0));
  f("loss_watchdog_patience", loss_watchdog_patience,
    "steps in a row with a loss above loss_watchdog_threshold before training stops", at_least(1));
  f("spike_deviations", spike_deviations,
    "if the loss is this many standard deviations above the mean of the last spike_window steps, go back to the last "
    "checkpoint and skip the batch; 0: off",
    at_least(0));
  f("spike_window", spike_window, "number of steps for the mean and deviation of spike_deviations", at_least(2));
}

void AdapterConfig::fields(Fields& f) {
  f("type", type,
    "none; lora: W becomes W + alpha / r A B, and only A and B (rank r) are trained; rslora: factor alpha / sqrt(r); "
    "dora: also the norm of each column of that sum is a trained number",
    one_of({"none", "lora", "rslora", "dora"}));
  f("rank", rank, "rank r of A B", at_least(1));
  f("alpha", alpha, "alpha in the factor on A B", at_least(0));
  f("targets", targets,
    "weights of linear maps that get an adapter, by name; a name with * or ? takes the linear maps among what it "
    "matches: "
    "[\"*.mixer.heads.*.weight\", \"*.ffn.*\"]");
  f("also", also,
    "parameters that are trained in full beside the adapters, by name: [\"head.*\"]; all others are frozen");
}

void LossScaling::fields(Fields& f) {
  f("type", type,
    "none; fixed: the factor is `initial`; dynamic: the factor doubles after growth_interval good steps; if gradients "
    "overflow, it is halved and the step is skipped",
    one_of({"none", "fixed", "dynamic"}));
  f("initial", initial, "factor on the loss at the start; a power of two changes no gradient that stays finite",
    at_least(1e-30));
  f("growth_interval", growth_interval, "dynamic: good steps before the factor doubles", at_least(1));
}

void RoundedTraining::fields(Fields& f) {
  f("weights", weights,
    "type to which weights are rounded at every step, with the same numbers as `lithe quantize --weights`; none: no "
    "rounding. Gradients pass straight through (STE) if a weight is not clipped",
    one_of({"none", "int8", "int4", "int2", "ternary"}));
  f("steps", steps,
    "the scales of rounded weights, one per output (int8) or per group. searched: at every step those with the "
    "smallest "
    "error; learned: trained with the weights (LSQ), from the searched ones; `lithe quantize` reads them from the run",
    one_of({"searched", "learned"}));
  f("group_size", group_size, "int4, int2, ternary: inputs that share one scale, 32 or 64", between(32, 64));
  f("activation_bits", activation_bits,
    "2, 4 or 8: rows that rounded weights multiply are rounded to this many bits, with one scale per row (8: as in "
    "integer inference); 0: off",
    between(0, 8));
  f("keep", keep, "parameters that are not rounded, by name, with * and ?: [\"embedding.*\", \"head.*\"]");
}

void RoundedTraining::validate() const {
  check_usage(group_size == 32 || group_size == 64, "train", "rounding.group_size must be 32 or 64, got ", group_size);
  check_usage(activation_bits == 0 || activation_bits == 2 || activation_bits == 4 || activation_bits == 8, "train",
              "rounding.activation_bits must be 0, 2, 4 or 8, got ", activation_bits);
  check_usage(
      on() || (activation_bits == 0 && keep.empty() && steps == "searched"), "train",
      "rounding.activation_bits, keep and steps are of rounded weights; set rounding.weights: int8, int4, int2 or "
      "ternary, or leave them out");
}

// spec: grow.depth_stack | training | growth inside one run, at given steps | TB 6.3.2(2), E18
void GrowthConfig::fields(Fields& f) {
  f("steps", steps, "the model grows after each of these steps; empty: never");
  f("layers", layers,
    "number of layers after each growth step, each a multiple of the one before; give layers or width");
  f("width", width,
    "after each growth step: channels, heads and hidden units as a multiple of the recipe's; predictions stay the same "
    "up to noise");
  f("optimizer_state", optimizer_state,
    "Adam's moments at a growth step: reset: start from zero; copy: new layers copy the moments of the layers that "
    "they are copies of",
    one_of({"reset", "copy"}));
  f("zero_new_residual", zero_new_residual,
    "new layers add zero at first, so that predictions stay the same (residual pre)");
  f("noise", noise, "width: relative noise on copied channels; without noise copies would stay equal", at_least(0));
}

void GrowthConfig::validate() const {
  check_usage(!steps.empty() || (layers.empty() && width.empty()), "train",
              "growth gives layers or width and no steps; list the steps after which the model grows");
  for (size_t i = 0; i < steps.size(); ++i)
    check_usage(steps[i] > (i ? steps[i - 1] : 0), "train", "growth.steps must rise and be above 0, got ", steps[i],
                i ? cat(" after ", steps[i - 1]) : "");
  check_usage(steps.empty() || layers.empty() != width.empty(), "train",
              "growth needs layers or width, and one of them: a run grows deeper or wider");
  const std::vector<int64_t>& to = layers.empty() ? width : layers;
  check_usage(to.size() == steps.size(), "train", "growth has ", steps.size(), " steps and ", to.size(), " sizes; ",
              "give one a step");
  for (size_t i = 0; i < to.size(); ++i)
    check_usage(to[i] > (i                ? to[i - 1]
                         : layers.empty() ? 1
                                          : 0) &&
                    (i == 0 || to[i] % to[i - 1] == 0),
                "train", "each size of growth must be a multiple of the one before, got ", to[i],
                i ? cat(" after ", to[i - 1]) : "");
  check_usage(width.empty() || optimizer_state == "reset", "train",
              "growth.optimizer_state copy is for layers: what copies of channels share is not known; set reset");
  check_usage(width.empty() || !zero_new_residual, "train",
              "growth.zero_new_residual is for layers: a wider model predicts the same anyway; leave it out");
}

int64_t GrowthConfig::stage(int64_t step) const {
  return std::count_if(steps.begin(), steps.end(), [&](int64_t at) { return at <= step; });
}

void TrainConfig::validate(int64_t sequence_length) const {
  check_usage(max_steps || max_tokens || num_train_epochs > 0 || max_time > 0, "train",
              "no limit is set; give max_steps, max_tokens, num_train_epochs or max_time");
  parallel.validate();
  growth.validate();
  rounding.validate();
  check_usage(
      !rounding.learns_steps() || (growth.steps.empty() && !average_checkpoints), "train",
      "rounding.steps learned are of one model at one step; leave growth and average_checkpoints out, or let steps "
      "be searched");
  check_usage(!adapters.on() || (!rounding.on() && growth.steps.empty() && freeze.empty() && !average_checkpoints),
              "train",
              "adapters freeze the model and publish it merged; leave rounding, growth, freeze and average_checkpoints "
              "out");
  const bool divided = parallel.model() > 1, sharded = parallel.optimizer_states == "sharded";
  check_usage(!sharded || (!divided && growth.optimizer_state == "reset"), "train",
              "parallel.optimizer_states sharded is for whole models on each rank, whose moments begin anew when they "
              "grow; leave tensor, pipeline, sequence, expert and growth.optimizer_state copy out, or set it to whole");
  check_usage(parallel.weights == "whole" || (sharded && gradient_checkpointing), "train",
              "parallel.weights sharded needs parallel.optimizer_states sharded and gradient_checkpointing true: the "
              "weights of a layer come again for its backward pass; set both, or parallel.weights to whole");
  check_usage(parallel.weights == "whole" || (!rounding.on() && !adapters.on() && growth.steps.empty() &&
                                              freeze.empty() && auxiliaries().empty() && !carry_state),
              "train",
              "parallel.weights sharded is for a model that trains as it is; leave rounding, adapters, growth, freeze, "
              "carry_state and auxiliary_objectives out, or set it to whole");
  check_usage(
      parallel.messages == "f32" || (!divided && precision != "f64"), "train",
      "parallel.messages bf16 is for whole models on each rank, trained in f32 or bf16; leave tensor, pipeline, "
      "sequence, expert and precision f64 out, or set it to f32");
  check_usage(!divided || (!rounding.on() && !adapters.on() && growth.steps.empty() && freeze.empty() && !carry_state &&
                           auxiliaries().empty() && optimizer_states == "f32"),
              "train",
              "parallel divides the model among ranks, and rounding, adapters, growth, freeze, carry_state, "
              "auxiliary_objectives and optimizer_states int8 are for whole ones; leave them out");
  check_usage(!divided || objective.type == "clm" || (objective.type != "distillation" && parallel.sequence == 1),
              "train", "parallel divides no objective ", objective.type,
              parallel.sequence > 1 ? " among ranks of a sequence; choose clm, or sequence: 1" : "; choose another");
  auxiliaries();
  check_usage(
      !ema_decay || (growth.steps.empty() && !adapters.on() && !rounding.on() && !average_checkpoints && !divided &&
                     !sharded && precision != "bf16"),
      "train",
      "ema_decay averages whole weights in f32 or f64; leave growth, adapters, rounding, average_checkpoints, a "
      "divided model and sharded states out, and set precision f32");
  check_usage(growth.steps.empty() || !average_checkpoints, "train",
              "average_checkpoints takes the mean of models of one size, and this one grows; leave one of both out");
  check_usage(optimizer_states == "f32" || precision != "f64", "train", "optimizer_states ", optimizer_states,
              " is for precision f32 and bf16; f64 checks with exact moments: leave optimizer_states out");
  check_usage(
      !optimizer_in_backward ||
          (max_grad_norm == 0 && gradient_accumulation_steps == 1 && !loss_scaling.on() && !divided && !sharded),
      "train",
      "optimizer_in_backward updates a layer before the other gradients of the step are there; set max_grad_norm "
      "to 0 and gradient_accumulation_steps to 1, and leave loss_scaling and parallel out; got max_grad_norm ",
      max_grad_norm, ", gradient_accumulation_steps ", gradient_accumulation_steps);
  check_usage(batch_tokens % gradient_accumulation_steps == 0, "train", "batch_tokens ", batch_tokens,
              " must be a multiple of gradient_accumulation_steps ", gradient_accumulation_steps);
  check_usage(micro_batch_tokens() >= sequence_length, "train",
              "batch_tokens / gradient_accumulation_steps = ", micro_batch_tokens(),
              " must hold at least one sequence of data.sequence_length ", sequence_length,
              "; raise train.batch_tokens, or lower data.sequence_length");
  check_usage(!carry_state || micro_batch_tokens() % sequence_length == 0, "train",
              "carry_state reads lanes of data.sequence_length ", sequence_length,
              " tokens each; batch_tokens / gradient_accumulation_steps = ", micro_batch_tokens(),
              " must be a multiple of it");
  check_usage(min_learning_rate <= learning_rate, "train", "min_learning_rate ", min_learning_rate,
              " must not exceed learning_rate ", learning_rate);
  check_usage(!average_checkpoints || (save_steps > 0 && save_total_limit >= average_checkpoints), "train",
              "average_checkpoints ", average_checkpoints,
              " needs save_steps above 0 and a save_total_limit of as many, "
              "got ",
              save_steps, " and ", save_total_limit);
  check_usage(spike_deviations == 0 || save_steps > 0, "train",
              "spike_deviations goes back to the last checkpoint; give save_steps");
  check_usage(adam_epsilon > 0, "train", "adam_epsilon must be above 0: a weight without gradients would become 0/0");
  const bool needs_end = lr_scheduler_type == "linear" || lr_scheduler_type == "cosine" ||
                         lr_scheduler_type == "cosine_restarts" || lr_scheduler_type == "wsd";
  check_usage(!(needs_end || warmup_ratio > 0) || max_steps || max_tokens || num_train_epochs > 0, "train",
              "lr_scheduler_type ", lr_scheduler_type,
              " needs to know the last step; give max_steps, max_tokens or num_train_epochs besides max_time");
}

std::vector<std::pair<std::string, PartChoice>> TrainConfig::auxiliaries() const {
  const Node& all = auxiliary_objectives;
  check_usage(all.is_null() || all.is_map(), "recipe", to_string(all.mark()),
              ": 'train.auxiliary_objectives' must be a section of names, as {halfway: {type: layer_prediction, layer: "
              "2}}");
  std::vector<std::pair<std::string, PartChoice>> out;
  for (const auto& [name, node] : all.entries()) {
    check_usage(!name.empty() && name.find('.') == name.npos, "recipe", to_string(node.mark()), ": the name '", name,
                "' stands before the names of its parameters; give one without a '.'");
    PartChoice choice;
    read_fields(all, "train.auxiliary_objectives", [&, &mine = name](Fields& f) {
      for (const auto& [other, value] : all.entries()) {
        PartChoice unread;
        f.part(other.c_str(), "objective", other == mine ? choice : unread, "");
      }
    });
    out.emplace_back(name, choice);
  }
  return out;
}

int64_t TrainConfig::total_steps(int64_t batches_per_epoch) const {
  int64_t total = 0;
  const auto limit = [&](int64_t steps) {
    if (steps > 0) total = total ? std::min(total, steps) : steps;
  };
  limit(max_steps);
  if (max_tokens) limit(std::max<int64_t>(1, max_tokens / batch_tokens));
  if (num_train_epochs > 0) {
    const double steps = num_train_epochs * double(batches_per_epoch) / double(gradient_accumulation_steps);
    check_usage(steps < 0x1p53, "train", "num_train_epochs ", num_train_epochs, " comes to ", steps,
                " steps, more than can be counted; lower it, or give max_steps");
    limit(std::max<int64_t>(1, int64_t(steps)));
  }
  return total;
}

}  // namespace lithe
