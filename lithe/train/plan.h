// What a recipe will cost, before it runs: parameters, FLOPs, bytes and exact peak memory, from one step on
// meta tensors through the same code.
#pragma once

#include "lithe/data/features.h"
#include "lithe/kernels/kernel.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/train/step.h"

namespace lithe {

struct MemoryUse {
  std::array<int64_t, kMemoryClasses> by_class{};  // at the moment of the peak
  int64_t peak = 0;
};
MemoryUse memory_peak(Device device);

struct PartCost {
  std::string part;  // layers merged: "layers.*.mixer"
  int64_t parameters = 0;
  double forward_flops = 0, step_flops = 0, step_bytes = 0;  // of one optimiser step's tokens
};

struct Plan {
  int64_t parameters = 0;            // of the model
  int64_t objective_parameters = 0;  // of what trains it (TrainedObjective), not published with it
  std::vector<PartCost> parts;
  kernels::Cost forward, step;  // one optimiser step
  MemoryUse memory;
  int64_t state_bytes_per_token = 0, state_bytes_constant = 0;  // decode state, one sequence
  double tokens_per_second = 0;                                 // 0 when not estimated
  /// Of a model that several ranks hold together (train.parallel): one rank of each stage. The rest is of the one whose
  /// peak is highest.
  struct OfRank {
    int rank = 0;
    int64_t parameters = 0, peak = 0;
  };
  std::vector<OfRank> ranks = {};
  RankSum::Traffic traffic;  // of one step with other ranks
};

/// Of this machine, as far as a step reaches them.
struct MachineRates {
  double flops = 0, bytes = 0;  // a second
  double seconds(const kernels::Cost& cost) const { return cost.flops / flops + cost.bytes / bytes; }
};
/// Measures for a moment. From the rate of one product and of one copy: a step's products are smaller and reach a part
/// of that rate; most bytes that kernels touch are still in a cache. Both shares are rules of thumb: the estimate is
/// rough.
MachineRates measure_rates(DType type);

/// Rows of the largest batches.
struct BatchRows {
  int64_t rows = 0;
  std::map<std::string, int64_t> sources = {};  // of an encoder-decoder, by the names of its encoders
};
/// Of modalities, by name.
using FeatureShapes = std::map<std::string, FeatureShape>;
/// A batch of the objective, as far as its sizes go: all tokens, labels and predicted rows are 0. Each sequence (of an
/// encoder-decoder's source) that has room for the features ends with them.
Batch batch_of_shape(const Model& model, const Objective& objective, const BatchRows& of, int64_t sequence_length,
                     const FeatureShapes& features = {});

struct PlanShape {
  int64_t sequence_length = 0;  // rows of a sequence
  BatchRows evaluation;         // 0: no evaluation
  BatchRows training;  // 0: micro_batch_tokens, shared out evenly between an encoder-decoder's sources and the target
  int64_t evaluation_length = 0;  // rows of a sequence of the evaluation; 0: sequence_length
  FeatureShapes features = {};
  int rank = 0, ranks = 1;          // whose plan it is, among how many that divide the micro-batches
  std::optional<DType> cache = {};  // of the decode state (Model::state_bytes)
  IntegerWeights integers = {};     // of the frozen model under adapters
};

/// With `estimate_speed` the machine's rates are measured for a moment. The peak is exact where all batches have the
/// same rows; where they differ (tasks, translation) it is the bound that the largest ones give. Carried states are
/// planned as they are when every lane has gone on for long.
Plan plan_training(const ModelConfig& model, const TrainConfig& train, const PlanShape& shape, bool estimate_speed);

/// f(rank, copy, plan) for each stage of a divided model, by its first rank, and in it for the ranks, or copies of the
/// model, that share out the parts of a step: all of these, or the first, the middle and the last of more than eight.
/// Estimates no speed. Fails (usage) where a rank would have no part.
void for_each_plan(const ModelConfig& model, const TrainConfig& train, PlanShape shape,
                   const std::function<void(int rank, int copy, Plan plan)>& f);
/// Of these the plan whose peak is highest. Of a divided model, ranks says what the stages need.
Plan highest_plan(const ModelConfig& model, const TrainConfig& train, const PlanShape& shape);

/// Changes accumulation, then recomputation, until the highest_plan() fits; fails (ExitCode::memory) naming the least.
/// Batches shrink as their number grows. All ranks choose alike; the plan is this one's (Layout::current).
Plan fit_memory(const ModelConfig& model, TrainConfig& train, const PlanShape& shape, int64_t budget);

/// "4GiB", "500MB", "1.5g" -> bytes. Fails (usage) naming the operation and the option that it is of.
int64_t parse_bytes(const std::string& text, const std::string& operation, const std::string& option);
/// 1536 -> "1.5 KiB".
std::string format_bytes(double bytes);

}  // namespace lithe
