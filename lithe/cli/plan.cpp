#include <cstdio>
#include <iostream>

#include "lithe/base/counted.h"
#include "lithe/base/json.h"
#include "lithe/cli/command.h"
#include "lithe/cli/cost_table.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/plan_ranks.h"
#include "lithe/train/plan_recipe.h"

namespace lithe {
namespace {

struct PlanOptions {
  std::string recipe, budget, network;
  std::vector<std::string> set;
  int64_t ranks = 0, batch = 0, length = 0, source_length = 0;
  bool fit = false, json = false, no_speed = false, cost = false, propose = false;
};

std::string format_count(double n) {
  static const char* units[] = {"", "K", "M", "G", "T", "P"};
  int unit = 0;
  while (n >= 1000 && unit < 5) {
    n /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit && n < 100 ? "%.2f%s" : "%.0f%s", n, units[unit]);
  return text;
}

void print(const Plan& plan, const Recipe& recipe) {
  std::printf("%-24s %12s %14s %14s %14s\n", "part", "parameters", "forward FLOPs", "step FLOPs", "step bytes");
  for (const PartCost& p : plan.parts)
    std::printf("%-24s %12s %14s %14s %14s\n", p.part.c_str(), format_count(double(p.parameters)).c_str(),
                format_count(p.forward_flops).c_str(), format_count(p.step_flops).c_str(),
                format_bytes(p.step_bytes).c_str());
  std::printf("%-24s %12s %14s %14s %14s\n\n", "total", format_count(double(plan.parameters)).c_str(),
              format_count(plan.forward.flops).c_str(), format_count(plan.step.flops).c_str(),
              format_bytes(plan.step.bytes).c_str());
  std::printf("one step: %s in %s, %s, recomputation %s\n", counted(recipe.train.batch_tokens, "token").c_str(),
              counted(recipe.train.gradient_accumulation_steps, "part").c_str(), recipe.train.precision.c_str(),
              recipe.train.gradient_checkpointing ? "on" : "off");
  std::printf("peak memory %s, %s:\n", format_bytes(double(plan.memory.peak)).c_str(),
              reads_source(recipe.model.architecture) && !recipe.model.encoders.entries().empty()
                  ? "when the target and each source have equally many tokens"
              : reads_source(recipe.model.architecture) ? "when half of the tokens are the source's"
              : recipe.has_task()                       ? "the bound that the largest batches give"
              : recipe.train.carry_state                ? "when every lane has gone on for long"
              : recipe.train.parallel.expert > 1        ? "when routers deal tokens out evenly"
                                                        : "exactly");
  for (int c = 0; c < kMemoryClasses; ++c)
    std::printf("  %-12s %12s\n", name_of(MemoryClass(c)),
                format_bytes(double(plan.memory.by_class[size_t(c)])).c_str());
  if (!plan.ranks.empty()) {
    const ParallelConfig& parallel = recipe.train.parallel;
    std::printf("%lld ranks hold a copy of the model together; this is the one with the highest peak. Of the ranks:\n",
                static_cast<long long>(parallel.model()));
    for (const Plan::OfRank& of : plan.ranks)
      std::printf("  rank %-6d %12s parameters %12s%s\n", of.rank, format_count(double(of.parameters)).c_str(),
                  format_bytes(double(of.peak)).c_str(),
                  parallel.model() > int64_t(plan.ranks.size()) ? ", and the others of its stage" : "");
  }
  const std::string constant =
      plan.state_bytes_constant ? cat(", and ", plan.state_bytes_constant, " per sequence") : "";
  if (!sees_ahead(recipe.model.architecture))
    std::printf("decode state %lld bytes per token and sequence%s\n",
                static_cast<long long>(plan.state_bytes_per_token), constant.c_str());
  if (const int64_t bound = recipe.model.architecture == Architecture::decoder ? most_state_bytes(recipe) : 0)
    std::printf("at most %lld bytes of it per sequence, however long that becomes\n", static_cast<long long>(bound));
  if (plan.tokens_per_second > 0)
    std::printf("about %.0f tokens/s in training on this machine (an estimate)\n", plan.tokens_per_second);
}

// --cost: the parts in use, in place of the plan of a training step.
int print_costs(const PlanOptions& o, const Recipe& recipe, int64_t length) {
  const analyze::CostOptions options{.batch = o.batch ? o.batch : 1,
                                     .length = length,
                                     .source_length = o.source_length,
                                     .dtype = recipe.train.parameter_dtype(),
                                     .compute = recipe.train.compute(),
                                     .recompute = recipe.train.gradient_checkpointing,
                                     .features = feature_shapes(recipe)};
  const analyze::ModelCost cost = analyze::model_cost(recipe.model, options);
  if (o.json)
    std::cout << dump(cost_json(cost, options), 2) << "\n";
  else
    std::cout << cost_table(cost, options);
  return 0;
}

std::string yaml_of(const ParallelConfig& parallel) {
  std::string out = cat("data: ", parallel.data);
  for (const auto& [key, size] : division_sizes(parallel))
    if (size > 1 && key != std::string("data")) out += cat(", ", key, ": ", size);
  return out;
}

int print_ranks(const PlanOptions& o, const Recipe& recipe) {
  constexpr size_t kShown = 10;
  const Network network = parse_network(o.network.empty() ? "1.25GB/s,50us" : o.network);
  const int64_t budget = o.budget.empty() ? 0 : parse_bytes(o.budget, "plan", "--memory-budget");
  std::vector<RanksPlan> plans =
      o.propose ? propose_divisions(recipe, int(o.ranks), network, budget) : plan_ranks(recipe, int(o.ranks), network);
  if (o.json) {
    std::cout << dump(Json({{"ranks", ranks_json(plans, recipe)}}), 2) << "\n";
    return 0;
  }
  const size_t all = plans.size();
  if (o.propose && all > kShown) plans.resize(kShown);
  size_t width = 8;
  for (const RanksPlan& p : plans) width = std::max(width, division_text(p.parallel).size());
  std::printf("%6s  %-*s %6s %12s %10s %10s %11s %9s %10s %9s %9s %9s  %s\n", "ranks", int(width), "division", "parts",
              "memory", "step", "tokens/s", "efficiency", "compute", "optimiser", "transfer", "latency", "waiting",
              "bottleneck");
  for (const RanksPlan& p : plans)
    std::printf("%6lld  %-*s %6lld %12s %8.3f s %10.0f %10.1f%% %7.3f s %8.3f s %7.3f s %7.3f s %7.3f s  %s\n",
                static_cast<long long>(p.ranks()), int(width), division_text(p.parallel).c_str(),
                static_cast<long long>(p.parts), format_bytes(double(p.memory.peak)).c_str(), p.seconds(),
                double(recipe.train.batch_tokens) / p.seconds(), 100 * p.efficiency, p.compute, p.optimizer, p.transfer,
                p.latency, p.waiting, p.bottleneck().c_str());
  if (o.propose)
    std::printf("%s, the fastest first; write the best into train.parallel: {%s}\n",
                all > kShown ? cat(kShown, " of ", all, " divisions").c_str() : "divisions",
                yaml_of(plans[0].parallel).c_str());
  std::printf(
      "parts, memory: of the rank that has most. Rates are this machine's with its threads; messages are counted, "
      "and nothing hides behind the backward pass (an estimate)\n");
  return 0;
}

int run_plan(const PlanOptions& o) {
  Recipe recipe = load_recipe(o.recipe, o.set);
  check_usage(o.network.empty() || o.ranks, "plan", "--network belongs to --ranks");
  check_usage(o.ranks || !o.propose, "plan", "--propose belongs to --ranks");
  check_usage(!o.ranks || (!o.cost && !o.fit && !o.no_speed && (o.budget.empty() || o.propose)), "plan",
              "--ranks plans the time of a step; leave out --cost, --fit and --no-speed, and --memory-budget unless "
              "--propose is given");
  if (o.ranks) return print_ranks(o, recipe);
  check_usage(o.cost || (!o.batch && !o.length && !o.source_length), "plan",
              "--batch, --length and --source-length belong to --cost");
  check_usage(!o.cost || (o.budget.empty() && !o.fit), "plan",
              "--cost plans no training step: leave out --memory-budget");
  const int64_t length = o.length ? o.length : recipe.data.sequence_length;
  if (o.cost) {
    complete_without_data(recipe, "plan", std::max(length, o.source_length));
    return print_costs(o, recipe, length);
  }
  const int64_t budget = o.budget.empty() ? 0 : parse_bytes(o.budget, "plan", "--memory-budget");
  check_usage(!o.fit || budget, "plan", "--fit needs --memory-budget");
  const Plan plan = plan_recipe(recipe, o.fit ? budget : 0, !o.no_speed);
  if (o.json) {
    std::cout << dump(plan_json(plan, recipe), 2) << "\n";
  } else {
    print(plan, recipe);
  }
  if (budget && plan.memory.peak > budget)
    throw Error("memory",
                cat("the plan needs ", format_bytes(double(plan.memory.peak)), ", the budget is ",
                    format_bytes(double(budget)), "; --fit chooses accumulation and recomputation"),
                ExitCode::memory);
  return 0;
}

}  // namespace

Command add_plan(CommandLine& app) {
  auto o = std::make_shared<PlanOptions>();
  app.add_option("recipe", o->recipe, "recipe file (YAML)").required();
  app.add_option("--set", o->set, "override a key of the recipe (repeatable)").repeatable();
  app.add_option("--memory-budget", o->budget, "exit 4 when the planned peak is above this, like 2GiB");
  app.add_flag(
      "--fit", o->fit,
      "with --memory-budget: choose gradient accumulation and recomputation so that the training fits the limit");
  app.add_flag("--no-speed", o->no_speed, "skip the speed estimate, which measures this machine for a moment");
  app.add_flag("--json", o->json, "print the plan as JSON");
  app.add_flag("--cost", o->cost,
               "cost of each part in use, beside the published formulas: parameters, FLOPs of prefill and decoding, "
               "activations, cache");
  app.add_option("--batch", o->batch, "with --cost: texts in a batch; default 1").between(1, 65536);
  app.add_option("--length", o->length, "with --cost: tokens per text; default: the recipe's sequence_length")
      .between(1, 1 << 24);
  app.add_option("--source-length", o->source_length,
                 "with --cost of an encoder_decoder: source tokens; default: as many as the text has")
      .between(1, 1 << 24);
  app.add_option("--ranks", o->ranks,
                 "memory of each rank, time of a step and efficiency on 1, 2, 4 ... up to this number of ranks, which "
                 "divide the parts of a step, and the model as train.parallel says (docs/clusters.md)")
      .between(1, 65536);
  app.add_flag(
      "--propose", o->propose,
      "with --ranks: plan each division of this number of ranks by data, tensor, pipeline, sequence and expert "
      "(powers of two) that the recipe allows, and print the fastest; --memory-budget is the limit of a rank");
  app.add_option("--network", o->network,
                 "with --ranks: bandwidth and latency between ranks; default 1.25GB/s,50us (10 Gbit/s Ethernet)");
  add_threads_option(app);
  app.footer(
      "Example: lithe plan recipes/quickstart.yaml --set model.num_hidden_layers=8\nRuns one training step on tensors "
      "without data: a training measures the same peak.");
  return [o] { return run_plan(*o); };
}

}  // namespace lithe
