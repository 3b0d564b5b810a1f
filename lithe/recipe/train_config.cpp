#include "lithe/recipe/train_config.h"

#include <algorithm>
#include <cmath>

#include "lithe/nn/registry.h"

namespace lithe {

// spec: train.presets | recipes | published training hyperparameters, as recipes/presets/*.yaml | TH
// Tables 2.4, 2.5, 3.11, 3.12, 3.15, 4.9; HP 5.1, Table 2
void TrainConfig::fields(Fields& f) {
  Registry::instance();  // the objective is resolved through it
  f("max_steps", max_steps, "optimiser steps; 0: no such limit", at_least(0));
  f("max_tokens", max_tokens, "tokens seen, in whole steps that do not exceed it; 0: no such limit", at_least(0));
  f("num_train_epochs", num_train_epochs,
    "passes over the corpus, the last batch of each may be short; 0: no such limit", at_least(0));
  f("max_time", max_time, "minutes of training, resumes included; 0: no such limit", at_least(0));
  f("batch_tokens", batch_tokens,
    "tokens of one optimiser step, of source and target together where there are two: whole pairs, so that a step may "
    "have more, by less than the longest pair",
    between(1, 1 << 24));
  f("gradient_accumulation_steps", gradient_accumulation_steps,
    "parts that a step's tokens are run in, one after another: less memory, same result up to rounding",
    between(1, 1 << 24));
  f("learning_rate", learning_rate, "peak learning rate; for inverse_sqrt the factor lr0 of Eq 6.48", at_least(0));
  f("min_learning_rate", min_learning_rate, "where linear, cosine and wsd end", at_least(0));
  f("lr_scheduler_type", lr_scheduler_type, "course of the learning rate after warm-up",
    one_of({"constant", "linear", "cosine", "cosine_restarts", "inverse_sqrt", "wsd"}));
  f("warmup_steps", warmup_steps, "steps of linear warm-up", at_least(0));
  f("warmup_ratio", warmup_ratio, "warm-up as a part of all steps, when warmup_steps is 0", between(0, 1));
  f("decay_ratio", decay_ratio, "wsd: the last part of all steps, in which the rate falls", between(0, 1));
  f("num_cycles", num_cycles, "cosine_restarts: how often the rate falls from its peak", at_least(1));
  f("weight_decay", weight_decay, "decoupled decay of matrices and tables (not of biases and norms)", at_least(0));
  f("adam_beta1", adam_beta1, "decay of the mean of gradients", between(0, 0.9999999));
  f("adam_beta2", adam_beta2, "decay of the mean of squared gradients", between(0, 0.9999999));
  f("adam_epsilon", adam_epsilon, "keeps Adam's division finite", at_least(0));
  f("max_grad_norm", max_grad_norm, "gradients are scaled down to this global norm; 0: never", at_least(0));
  f("label_smoothing", label_smoothing, "part of the target spread over the vocabulary", between(0, 0.999));
  f("freeze", freeze,
    "parameters that keep their values, by their names in model.safetensors, * and ? allowed: [embedding.*, "
    "layers.0.*]");
  f.part("objective", "objective", objective, "objective of the training; lithe list objective");
  f.free("auxiliary_objectives", auxiliary_objectives,
         "further objectives for the same batches: {name: objective}, each with a weight of its own; the names "
         "stand in metrics.jsonl");
  f.section("growth", growth, "a run that begins small and grows while it learns");
  f.section("rounding", rounding, "train for few bits: with weights, and rows that meet them, rounded");
  f.section("loss_scaling", loss_scaling, "gradients of a multiplied loss, so that small ones do not vanish");
  f.section("parallel", parallel,
            "how the ranks of a job (mpirun, srun) divide the work; a copy of the model each where "
            "it says nothing");
  f.section("adapters", adapters, "low-rank updates of parameters that stay: few numbers learn, and are saved alone");
  f("precision", precision, "of rows and products: f32, bf16 (with f32 weights), f64 (slow, for checks)",
    one_of({"f32", "bf16", "f64"}));
  f("optimizer_states", optimizer_states,
    "Adam's moments: f32 (f64 in f64), or int8: codes of 8 bits with a scale for each 256 numbers, in matrices and "
    "tables of 4096 numbers and more",
    one_of({"f32", "int8"}));
  f("gradient_checkpointing", gradient_checkpointing,
    "recompute each layer's activations in the backward pass: less memory, more time");
  f("carry_state", carry_state,
    "read the text in lanes, batch_tokens / gradient_accumulation_steps / data.sequence_length of them, each in the "
    "order "
    "of the text, and go on from the state that the segment before left: no gradient passes between segments, and a "
    "document that ends resets its lane");
  f("seed", seed, "of initial weights, data order and dropout", at_least(0));
  f("logging_steps", logging_steps, "steps between lines of metrics.jsonl", at_least(1));
  f("eval_steps", eval_steps, "steps between evaluations on the held-out data; 0: at the end only, -1: every epoch",
    at_least(-1));
  f("early_stopping_patience", early_stopping_patience,
    "stop after this many evaluations without a better one; 0: never", at_least(0));
  f("save_steps", save_steps, "steps between checkpoints; 0: at the end only", at_least(0));
  f("save_total_limit", save_total_limit, "checkpoints kept beside the best", at_least(1));
  f("ema_decay", ema_decay,
    "a moving average of the weights is evaluated, and kept as best and averaged: after each step it is so many times "
    "itself and the rest the weights, in the first steps (1 + step) / (10 + step) where that is less; 0: none",
    between(0, 0.999999));
  f("average_checkpoints", average_checkpoints,
    "at the end, averaged/model.safetensors becomes the mean of this many last checkpoints; 0: none", at_least(0));
  f("sample_steps", sample_steps, "steps between samples of text (section generate); 0: at the end only", at_least(0));
  f("loss_watchdog_threshold", loss_watchdog_threshold, "stop (exit 3) when the loss stays above this; 0: off",
    at_least(0));
  f("loss_watchdog_patience", loss_watchdog_patience, "steps above the threshold before stopping", at_least(1));
  f("spike_deviations", spike_deviations,
    "a loss this many deviations above the window's mean goes back to the last checkpoint and skips the batch; 0: off",
    at_least(0));
  f("spike_window", spike_window, "steps in the window of spike_deviations", at_least(2));
}

void AdapterConfig::fields(Fields& f) {
  f("type", type,
    "none; lora: matrices W are read as W + alpha / r A B of rank r, and A and B are all that learns; rslora: alpha / "
    "sqrt(r); dora: the columns of that keep lengths of their own, which learn, too",
    one_of({"none", "lora", "rslora", "dora"}));
  f("rank", rank, "r", at_least(1));
  f("alpha", alpha, "how much A B counts", at_least(0));
  f("targets", targets,
    "weights of linear maps that have one, by name, * and ? allowed: [*.mixer.heads.*.weight, *.ffn.*]");
  f("also", also, "parameters that learn as they are, by name: [head.*]; all others stay");
}

void LossScaling::fields(Fields& f) {
  f("type", type,
    "none; fixed: by `initial`; dynamic: by a number that doubles after growth_interval good steps, and is halved by a "
    "step whose gradients overflow, which changes no parameter",
    one_of({"none", "fixed", "dynamic"}));
  f("initial", initial, "factor of the loss at the start; a power of two changes no gradient that stays finite",
    at_least(1e-30));
  f("growth_interval", growth_interval, "dynamic: good steps until the number doubles", at_least(1));
}

void RoundedTraining::fields(Fields& f) {
  f("weights", weights,
    "what products and look-ups read of each matrix: its numbers (none), or the very numbers that `lithe quantize "
    "--weights` makes of it, anew every step; gradients pass straight through where a weight is not clipped",
    one_of({"none", "int8", "int4", "int2", "ternary"}));
  f("group_size", group_size, "int4, int2, ternary: inputs that share a step, 32 or 64", between(32, 64));
  f("activation_bits", activation_bits,
    "rows that meet rounded weights are rounded to so many bits, each with its own step, as integer products do with "
    "8; "
    "0: they are not",
    between(0, 8));
  f("keep", keep, "parameters that are not rounded, by name, * and ? allowed: [embedding.*, head.*]");
}

void RoundedTraining::validate() const {
  check_usage(group_size == 32 || group_size == 64, "train", "rounding.group_size must be 32 or 64, got ", group_size);
  check_usage(activation_bits == 0 || activation_bits == 2 || activation_bits == 4 || activation_bits == 8, "train",
              "rounding.activation_bits must be 0, 2, 4 or 8, got ", activation_bits);
  check_usage(on() || (activation_bits == 0 && keep.empty()), "train",
              "rounding.activation_bits and keep are of rounded weights; set rounding.weights: int8, int4, int2 or "
              "ternary, or leave them out");
}

// spec: grow.depth_stack | training | growth inside one run, at given steps | TB 6.3.2(2), E18
void GrowthConfig::fields(Fields& f) {
  f("steps", steps, "after each of these steps the model grows; none: never");
  f("layers", layers, "layers it then has, one number a growth, each a multiple of the one before");
  f("width", width,
    "channels, heads and hidden units it then has, as a multiple of the recipe's, one number a growth; predictions "
    "stay the same up to noise");
  f("optimizer_state", optimizer_state,
    "Adam's moments: reset begins anew; copy: new layers have those of the layers they are copies of",
    one_of({"reset", "copy"}));
  f("zero_new_residual", zero_new_residual,
    "what new layers add starts as zero, so that predictions stay the same (residual pre)");
  f("noise", noise, "width: relative noise on the copies, which would stay equal without it", at_least(0));
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
  growth.validate();
  rounding.validate();
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
    read_fields(all, "train.auxiliary_objectives", [&](Fields& f) {
      for (const auto& [other, value] : all.entries()) {
        PartChoice unread;
        f.part(other.c_str(), "objective", other == name ? choice : unread, "");
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
