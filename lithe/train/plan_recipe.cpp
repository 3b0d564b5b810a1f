#include "lithe/train/plan_recipe.h"

#include <algorithm>

#include "lithe/eval/task_metrics.h"
#include "lithe/train/adapters.h"
#include "lithe/train/check_recipe.h"

namespace lithe {

namespace {

void plan_evaluations(const Recipe& recipe, PlanShape& shape) {
  if (recipe.data.validation_files.empty() && recipe.data.validation_fraction == 0) return;
  shape.evaluation.rows = recipe.train.micro_batch_tokens();
  if (recipe.train.carry_state) shape.evaluation_length = shape.evaluation.rows;
}

}  // namespace

PlanShape complete_to_plan(Recipe& recipe) {
  complete_without_data(recipe, "plan", recipe.data.sequence_length);
  recipe.train.validate(recipe.data.sequence_length);
  prepare_without_data(recipe);
  if (recipe.has_task() && !recipe.task.labels.empty())
    choose_metrics(recipe.task, recipe.task.labels);
  else if (recipe.has_task())
    check_metrics(recipe.task);
  check_recipe(recipe, recipe.model);
  PlanShape shape;
  shape.cache = recipe.generate.cache_type();
  shape.sequence_length = recipe.data.sequence_length;
  shape.features = feature_shapes(recipe);
  shape.integers = integers_under_adapters(recipe);
  const ParallelConfig& parallel = recipe.train.parallel;
  if (parallel.model() > 1) shape.ranks = int(std::max<int64_t>(1, parallel.data));
  plan_evaluations(recipe, shape);
  return shape;
}

Plan plan_recipe(Recipe& recipe, int64_t fit_budget, bool estimate_speed) {
  PlanShape shape = complete_to_plan(recipe);
  if (fit_budget) fit_memory(recipe.model, recipe.train, shape, fit_budget);
  plan_evaluations(recipe, shape);
  return recipe.train.parallel.model() > 1 ? highest_plan(recipe.model, recipe.train, shape)
                                           : plan_training(recipe.model, recipe.train, shape, estimate_speed);
}

int64_t most_state_bytes(const Recipe& recipe) {
  const Model model(recipe.model, {.device = Device::meta, .compute = recipe.train.compute()});
  constexpr int64_t kFar = int64_t(1) << 20, kPeriod = 4096;  // pages and chunks make it rise and fall
  int64_t most = 0;
  const auto bytes = [&](int64_t tokens) { return model.state_bytes({tokens}, {}, recipe.generate.cache_type()); };
  for (int64_t tokens = kFar; tokens < kFar + kPeriod; ++tokens) most = std::max(most, bytes(tokens));
  return bytes(16 * kFar) <= most ? most : 0;
}

Json plan_json(const Plan& plan, const Recipe& recipe) {
  Json json = {{"parameters", plan.parameters},
               {"forward_flops", plan.forward.flops},
               {"step_flops", plan.step.flops},
               {"step_bytes", plan.step.bytes},
               {"peak_bytes", plan.memory.peak},
               {"memory", Json::object()},
               {"state_bytes_per_token", plan.state_bytes_per_token},
               {"state_bytes_constant", plan.state_bytes_constant},
               {"state_bytes_bound", recipe.model.architecture == Architecture::decoder ? most_state_bytes(recipe) : 0},
               {"batch_tokens", recipe.train.batch_tokens},
               {"gradient_accumulation_steps", recipe.train.gradient_accumulation_steps},
               {"gradient_checkpointing", recipe.train.gradient_checkpointing},
               {"parts", Json::array()}};
  for (const Plan::OfRank& of : plan.ranks)
    json["ranks"].push_back({{"rank", of.rank}, {"parameters", of.parameters}, {"peak_bytes", of.peak}});
  for (int c = 0; c < kMemoryClasses; ++c) json["memory"][name_of(MemoryClass(c))] = plan.memory.by_class[size_t(c)];
  for (const PartCost& p : plan.parts)
    json["parts"].push_back({{"part", p.part},
                             {"parameters", p.parameters},
                             {"forward_flops", p.forward_flops},
                             {"step_flops", p.step_flops},
                             {"step_bytes", p.step_bytes}});
  if (plan.tokens_per_second > 0) json["tokens_per_second_estimate"] = plan.tokens_per_second;
  return json;
}

}  // namespace lithe
