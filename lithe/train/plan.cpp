#include "lithe/train/plan.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>

#include "lithe/base/stop.h"
#include "lithe/eval/held_out.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/parallel/operations.h"
#include "lithe/train/adapters.h"
#include "lithe/train/rounded_training.h"
#include "lithe/train/sharded_weights.h"

namespace lithe {
namespace {

// layers.3.mixer.heads.q.weight -> layers.*.mixer
std::string merged_part(const std::string& name) {
  std::vector<std::string> words;
  for (size_t at = 0; at <= name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    words.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  size_t first = 0;
  std::string side;  // encoder. or decoder.
  if (words.size() > 1 && (words[0] == "encoder" || words[0] == "decoder")) side = words[first++] + ".";
  if (words.size() > 2 && words[0] == "encoders") side = words[0] + "." + words[1] + ".", first = 2;
  if (words[first] != "layers") return side + words[first];
  return side + (words.size() > first + 2 ? "layers.*." + words[first + 2] : "layers.*");
}

double seconds_of(const std::function<void()>& work) {
  work();
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// Rows of the features of an example; 0: they differ from example to example.
int64_t alike_rows(const FeatureShapes& features) {
  int64_t all = 0;
  for (const auto& [name, shape] : features) {
    if (!shape.rows) return 0;
    all += shape.rows;
  }
  return all;
}

BatchRows training_rows(const ModelConfig& model, const TrainConfig& train, const PlanShape& shape) {
  if (shape.training.rows) return shape.training;
  const int64_t all = train.micro_batch_tokens();
  BatchRows out{all};
  if (!reads_source(model.architecture)) return out;  // further encoders of an encoder read its own text
  const std::vector<std::string> sources = model.source_names();
  for (const std::string& name : sources) out.sources[name] = all / int64_t(sources.size() + 1);
  // Features of one size are whole in each sequence of a source, and leave room for what is written.
  const int64_t features = alike_rows(shape.features) * (all / std::max<int64_t>(1, shape.sequence_length));
  if (const auto source = out.sources.find(kSource); source != out.sources.end() && features < all)
    source->second = std::max(source->second, features);
  for (const auto& [name, rows] : out.sources) out.rows -= rows;
  out.rows = std::max<int64_t>(1, out.rows);
  return out;
}

// The states of lanes, brought forward until they have grown as large as they get.
std::optional<CarriedState> planned_states(const Model& model, const TrainConfig& train, Batch& batch,
                                           int64_t sequence_length) {
  if (!train.carry_state) return std::nullopt;
  constexpr int64_t kSegments = 256, kFar = int64_t(1) << 24;
  const int64_t lanes = batch.sequences();
  for (int64_t b = 0; b <= lanes; ++b) batch.lanes.push_back(b);
  batch.continues.assign(size_t(lanes), 1);
  std::optional<CarriedState> states(std::in_place, model, lanes, kFar);
  const NoGrad no_grad;
  // Documents end where positions do.
  const int64_t limit = model.position_limit(), most = limit ? limit / sequence_length - 1 : kSegments,
                full = model.state_bytes({limit ? limit : kFar});
  for (int64_t i = 0; i < std::min(most, kSegments) && model.state_bytes({i * sequence_length}) < full; ++i) {
    const DeviceBatch segment = to_device(batch, model);
    Pass pass;
    DecodeState& state = states->enter(segment);
    model.run(segment.continuing(model, state), pass, &state);
    states->leave(segment);
  }
  return states;
}

}  // namespace

namespace {

void end_with_features(Batch& batch, const FeatureShapes& features) {
  int64_t all = 0, others = 0;  // others: whose rows differ from example to example
  for (const auto& [name, shape] : features) all += shape.rows, others += shape.rows == 0;
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    // Those that differ share what the others leave of the sequence.
    const int64_t left = batch.offsets[size_t(b) + 1] - batch.offsets[size_t(b)] - all;
    if (left < 0) continue;
    int64_t row = batch.offsets[size_t(b)] + (others ? left % others : left);
    for (const auto& [name, shape] : features) {
      Batch::Guests& guests = batch.modalities[name];
      guests.token_width = 1 + shape.width;
      for (int64_t r = 0; r < (shape.rows ? shape.rows : left / others); ++r) guests.rows.push_back(row++);
      guests.tokens.resize(guests.rows.size() * size_t(guests.token_width));
    }
  }
}

}  // namespace

Batch batch_of_shape(const Model& model, const Objective& objective, const BatchRows& of, int64_t sequence_length,
                     const FeatureShapes& features) {
  Batch batch{.offsets = {0}, .token_width = std::max<int64_t>(1, model.config().token_width)};
  int64_t rows = of.rows;
  // Batches of examples hold whole sequences: what is left has no room for features of one size.
  if (const int64_t rest = rows % sequence_length; of.sources.empty() && rest < rows && rest < alike_rows(features))
    rows -= rest;
  batch.tokens.assign(size_t(rows * batch.token_width), 0);
  if (!of.sources.empty()) {
    // As many sequences on all sides, none of them too long, and none of a source empty.
    int64_t most = rows, least = INT64_MAX;
    std::map<std::string, int64_t> read;
    for (const std::string& name : model.config().source_names())
      if (const auto count = of.sources.find(name); count != of.sources.end()) read.insert(*count);
    for (const auto& [name, count] : read) most = std::max(most, count), least = std::min(least, count);
    const int64_t sequences = std::min((most + sequence_length - 1) / sequence_length, least);
    for (int64_t b = 1; b <= sequences; ++b) batch.offsets.push_back(rows * b / sequences);
    for (const auto& [name, count] : read) {
      Batch& source = batch.sources[name];
      source.tokens.assign(size_t(count), 0);
      source.offsets = {0};
      for (int64_t b = 1; b <= sequences; ++b) source.offsets.push_back(count * b / sequences);
    }
  }
  while (batch.offsets.back() < rows) batch.offsets.push_back(std::min(rows, batch.offsets.back() + sequence_length));
  end_with_features(of.sources.count(kSource) ? batch.sources[kSource] : batch, features);
  if (const int64_t predicted = objective.predicted_rows(rows)) {
    batch.predicted.assign(size_t(predicted), 0);
    batch.labels.assign(batch.predicted.size(), 0);
    return batch;
  }
  const Head::LabelCount count = model.label_count(Sequences(batch.offsets, {}, Device::meta));
  if (count.own_lengths) {
    batch.label_offsets = {0};
    for (size_t b = 1; b < batch.offsets.size(); ++b)
      batch.label_offsets.push_back(batch.label_offsets.back() + (batch.offsets[b] - batch.offsets[b - 1]) / 2);
    batch.labels.assign(size_t(batch.label_offsets.back()), 0);
  } else if (count.classes)
    batch.labels.assign(size_t(count.labels), 0);
  else
    batch.values.assign(size_t(count.labels), 0);
  return batch;
}

MemoryUse memory_peak(Device device) {
  MemoryUse use;
  for (int c = 0; c < kMemoryClasses; ++c) use.by_class[size_t(c)] = ledger(device).peak(MemoryClass(c));
  use.peak = ledger(device).peak();
  return use;
}

namespace {

// Costs part by part, in the order in which parts are met.
class PartCosts {
 public:
  PartCost& of(const std::string& name) {
    const std::string key = merged_part(name.empty() ? "other" : name);
    const auto [found, first] = parts_.try_emplace(key);
    if (first) order_.push_back(key);
    return found->second;
  }
  std::vector<PartCost> in_order() const {
    std::vector<PartCost> out;
    for (const std::string& name : order_) {
      out.push_back(parts_.at(name));
      out.back().part = name;
    }
    return out;
  }

 private:
  std::map<std::string, PartCost> parts_;
  std::vector<std::string> order_;
};

void heed_signals() { check_not_stopped("plan", "nothing was begun"); }

// One optimiser step: its costs, and the memory at its peak.
void plan_step(const Model& model, const TrainedObjective& objective, AdamW& optimizer, const Batch& batch,
               const TrainConfig& train, CarriedState* carried, const RankSum& ranks, PartCosts& parts, Plan& plan) {
  const kernels::CostMeter meter;
  const MessageMeter messages;
  {
    const int64_t count = train.gradient_accumulation_steps, first = ranks.first_of(ranks.rank(), count),
                  last = ranks.first_of(ranks.rank() + 1, count);
    std::vector<DeviceBatch> own;
    for (int64_t i = first; i < last; ++i) own.push_back(to_device(batch, model));
    const InBackward in_backward{optimizer, 1, train.learning_rate};
    accumulate_gradients(
        model, objective,
        StepBatches{.own = own, .first = first, .count = count, .labelled = count * own.front().labelled}, train, 1,
        carried, 1, &ranks, &in_backward);
    heed_signals();
    const kernels::PartScope scope("optimizer");
    optimizer.step(1, train.learning_rate, 1);
  }
  // Ranks that hold a model together exchange all they do by operations.
  plan.traffic = model.division() ? RankSum::Traffic{messages.messages(), messages.bytes()} : ranks.traffic();
  plan.step = meter.total();
  for (const auto& e : meter.entries()) {
    PartCost& cost = parts.of(e.part);
    cost.step_flops += e.cost.flops;
    cost.step_bytes += e.cost.bytes;
  }
  plan.memory = memory_peak(Device::meta);
}

// The plan's memory is that of an evaluation where this needs more.
void plan_evaluation(const Model& model, const Objective& objective, const PlanShape& shape, Plan& plan) {
  if (shape.evaluation.rows == 0) return;
  ledger(Device::meta).reset_peak();
  const int64_t limit = model.position_limit(),
                longest = limit ? std::min(limit, shape.evaluation_length) : shape.evaluation_length,
                length = longest ? longest : shape.sequence_length;
  evaluate_batch(model, objective,
                 to_device(batch_of_shape(model, objective, shape.evaluation, length, shape.features), model));
  if (const MemoryUse evaluation = memory_peak(Device::meta); evaluation.peak > plan.memory.peak)
    plan.memory = evaluation;
}

// For its costs alone: a run without held-out text has no such pass.
void plan_forward(const Model& model, const Objective& objective, const Batch& batch, double micro_batches,
                  PartCosts& parts, Plan& plan) {
  const kernels::CostMeter meter;
  evaluate_batch(model, objective, to_device(batch, model));
  plan.forward = meter.total();
  for (const auto& e : meter.entries()) parts.of(e.part).forward_flops += e.cost.flops * micro_batches;
  plan.forward.flops *= micro_batches;
  plan.forward.bytes *= micro_batches;
}

}  // namespace

MachineRates measure_rates(DType type) {
  constexpr double kRateOfProducts = 0.9, kBytesFromMemory = 0.25;
  const Tensor a = zeros({1024, 512}, type), b = zeros({512, 1024}, type), c = zeros({1024, 1024}, type);
  const double gemm = 2.0 * 1024 * 1024 * 512 / seconds_of([&] { kernels::gemm({.a = a, .b = b, .c = c}); });
  const Tensor x = zeros({int64_t(1) << 22}, DType::f32), y = zeros({int64_t(1) << 22}, DType::f32);
  const double copy = 2.0 * double(x.bytes()) / seconds_of([&] { kernels::add({.a = x, .out = y}); });
  return {kRateOfProducts * gemm, copy / kBytesFromMemory};
}

Plan plan_training(const ModelConfig& config, const TrainConfig& train, const PlanShape& shape, bool estimate_speed) {
  Plan plan;
  heed_signals();
  const int64_t before = ledger(Device::meta).current();
  check(before == 0, "plan", "the meta ledger holds ", before, " bytes of another plan");
  ledger(Device::meta).reset_peak();
  PartCosts parts;
  {
    const std::unique_ptr<Model> made = make_model(config,
                                                   {.device = Device::meta,
                                                    .dtype = train.parameter_dtype(),
                                                    .compute = train.compute(),
                                                    .trainable = true,
                                                    .integers = &shape.integers.names,
                                                    .frozen = train.freeze},
                                                   train, shape.rank, shape.ranks);
    Model& model = *made;
    heed_signals();
    if (model.division()) ledger(Device::meta).reset_peak();  // whole parts stood beside the shares
    model.set_recompute(train.gradient_checkpointing);
    TrainedObjective objective(train, model);
    const RoundedWeights rounded(model, train.rounding, objective.parameters());
    if (train.rounding.on()) ledger(Device::meta).reset_peak();  // which looked at a model beside this one
    std::optional<Adapters> adapters;
    if (train.adapters.on()) {
      outline_integers(model.parameters(), shape.integers);
      adapters.emplace(model, train.adapters, objective.parameters(), uint64_t(train.seed));
      ledger(Device::meta).reset_peak();
    }
    const std::vector<Parameters*> parameters{&model.parameters(), &objective.parameters()};
    const RankSum ranks(nullptr, shape.rank, shape.ranks, parameters, train.parallel);
    AdamW optimizer(parameters, train, true, &ranks);
    const std::unique_ptr<ShardedWeights> shards = ShardedWeights::of(model, objective.parameters(), ranks);
    for (const Parameters* parameters : {&model.parameters(), &objective.parameters()})
      for (const Parameter& p : parameters->all()) parts.of(p.name).parameters += p.master.shape().numel();
    plan.parameters = model.parameters().count();
    plan.objective_parameters = objective.parameters().count();
    const int64_t one = model.state_bytes({1}, {}, shape.cache);
    plan.state_bytes_per_token = model.state_bytes({2}, {}, shape.cache) - one;
    plan.state_bytes_constant = one - plan.state_bytes_per_token;

    Batch batch = batch_of_shape(model, objective.main(), training_rows(config, train, shape), shape.sequence_length,
                                 shape.features);
    if (train.carry_state) check_carries_states(model, train, shape.sequence_length);
    std::optional<CarriedState> carried = planned_states(model, train, batch, shape.sequence_length);
    if (carried) ledger(Device::meta).reset_peak();
    plan_step(model, objective, optimizer, batch, train, carried ? &*carried : nullptr, ranks, parts, plan);
    heed_signals();
    plan_evaluation(model, objective.main(), shape, plan);
    heed_signals();
    plan_forward(model, objective.main(), batch, double(train.gradient_accumulation_steps), parts, plan);
  }
  plan.parts = parts.in_order();
  if (estimate_speed)
    plan.tokens_per_second = double(train.batch_tokens) / measure_rates(train.compute()).seconds(plan.step);
  return plan;
}

void for_each_plan(const ModelConfig& model, const TrainConfig& train, PlanShape shape,
                   const std::function<void(int, int, Plan)>& f) {
  check_usage(train.gradient_accumulation_steps >= shape.ranks, "plan", "gradient_accumulation_steps ",
              train.gradient_accumulation_steps, " is below the ", shape.ranks,
              " ranks, or copies of the model, that divide the parts of a step; set it to ", shape.ranks,
              " or a multiple");
  const ParallelConfig& parallel = train.parallel;
  std::vector<int> copies;
  for (int rank = 0; rank < shape.ranks; ++rank)
    if (shape.ranks <= 8 || rank == 0 || rank == shape.ranks / 2 || rank + 1 == shape.ranks) copies.push_back(rank);
  for (int64_t stage = 0; stage < parallel.pipeline; ++stage) {
    const auto rank = int(stage * parallel.model() / parallel.pipeline);
    std::optional<Layout> layout;
    if (parallel.model() > 1) layout.emplace(parallel, rank);
    const Layout::Use of_stage(layout ? &*layout : nullptr);
    for (const int copy : copies) {
      shape.rank = copy;
      f(rank, copy, plan_training(model, train, shape, false));
    }
  }
}

Plan highest_plan(const ModelConfig& model, const TrainConfig& train, const PlanShape& shape) {
  Plan highest;
  std::vector<Plan::OfRank> stages;
  for_each_plan(model, train, shape, [&](int rank, int copy, Plan plan) {
    if (copy == 0) stages.push_back({rank, plan.parameters, plan.memory.peak});
    stages.back().peak = std::max(stages.back().peak, plan.memory.peak);
    if (plan.memory.peak > highest.memory.peak) highest = std::move(plan);
  });
  if (train.parallel.model() > 1) highest.ranks = std::move(stages);
  return highest;
}

namespace {

// Ranks that share out the weights run the same layers at the same time (accumulate_gradients).
bool divides_layers(const TrainConfig& train, int64_t parts, int ranks) {
  return train.parallel.weights == "whole" || ranks == 1 ||
         (parts % ranks == 0 && std::has_single_bit(uint64_t(parts / ranks)));
}

}  // namespace

Plan fit_memory(const ModelConfig& model, TrainConfig& train, const PlanShape& shape, int64_t budget) {
  int64_t least = INT64_MAX;
  const int64_t now = train.gradient_accumulation_steps;
  for (const bool recompute : {false, true}) {
    if (recompute < train.gradient_checkpointing || (recompute && train.carry_state)) continue;
    for (int64_t parts = now; train.batch_tokens / parts >= shape.sequence_length; ++parts) {
      if (train.batch_tokens % parts || !divides_layers(train, parts, shape.ranks)) continue;
      if (parts > now && train.optimizer_in_backward) break;  // each part has gradients of all layers
      TrainConfig candidate = train;
      candidate.gradient_checkpointing = recompute;
      candidate.gradient_accumulation_steps = parts;
      PlanShape smaller = shape;
      const auto shrink = [&](BatchRows& rows) {  // a batch may exceed its share by one sequence
        const int64_t one = rows.sources.empty() ? 0 : shape.sequence_length;
        rows.rows = std::min(rows.rows, rows.rows * now / parts + one);
        for (auto& [name, count] : rows.sources) count = std::min(count, count * now / parts + one);
      };
      if (shape.training.rows) shrink(smaller.training);
      if (!shape.evaluation.sources.empty()) shrink(smaller.evaluation);
      smaller.evaluation.rows = std::min(smaller.evaluation.rows, candidate.micro_batch_tokens());
      const Plan plan = highest_plan(model, candidate, smaller);
      if (plan.memory.peak <= budget) {
        train = candidate;
        const bool alone = smaller.ranks == 1 && candidate.parallel.model() == 1;
        return alone ? plan : plan_training(model, candidate, smaller, false);
      }
      least = std::min(least, plan.memory.peak);
    }
  }
  throw Error(
      "memory",
      cat("the budget of ", format_bytes(double(budget)), " cannot be met: the least this model and batch need is ",
          format_bytes(double(least)), "; make the model, data.sequence_length or train.batch_tokens smaller"),
      ExitCode::memory);
}

int64_t parse_bytes(const std::string& text, const std::string& operation, const std::string& option) {
  size_t end = 0;
  double value = -1;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  std::string unit;
  for (char c : text.substr(end))
    if (c != ' ') unit += char(std::tolower(static_cast<unsigned char>(c)));
  static const std::map<std::string, double> units = {
      {"", 1},     {"b", 1},      {"k", 0x1p10},   {"kib", 0x1p10}, {"kb", 1e3},   {"m", 0x1p20},   {"mib", 0x1p20},
      {"mb", 1e6}, {"g", 0x1p30}, {"gib", 0x1p30}, {"gb", 1e9},     {"t", 0x1p40}, {"tib", 0x1p40}, {"tb", 1e12}};
  const auto found = units.find(unit);
  check_usage(value > 0 && std::isfinite(value) && found != units.end() && value * found->second < 0x1p62, operation,
              option, " must be a size like 4GiB or 500MB, above 0, got '", text, "'");
  return int64_t(value * found->second);
}

std::string format_bytes(double bytes) {
  static const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return text;
}

}  // namespace lithe
