#include "lithe/train/plan_ranks.h"

#include <algorithm>
#include <cmath>

#include "lithe/data/examples_readers.h"
#include "lithe/train/plan_recipe.h"

namespace lithe {
namespace {

// A number with a unit out of `units`, as "25GB/s".
double number_with(const std::string& text, const std::vector<std::pair<std::string, double>>& units,
                   const std::string& whole) {
  for (const auto& [unit, factor] : units) {
    if (!text.ends_with(unit)) continue;
    const auto number = finite_number(text.substr(0, text.size() - unit.size()));
    if (number && *number > 0) return *number * factor;
  }
  fail_usage("plan", "--network must be bandwidth and latency, as 25GB/s,2us or 10Gbit/s,50us; got '", whole, "'");
}

// Gathers of a step go round the ring, two messages a round: labels, losses, signals, and norms of sharded gradients.
int64_t messages_of_gathers(int ranks, bool sharded) { return 2 * int64_t(ranks - 1) * (sharded ? 4 : 3); }

RanksPlan plan_of(const Recipe& recipe, int ranks, const Network& network, const MachineRates& rates) {
  RanksPlan out{.ranks = ranks};
  std::vector<int> looked_at{0, ranks / 2, ranks - 1};
  looked_at.erase(std::unique(looked_at.begin(), looked_at.end()), looked_at.end());
  for (const int rank : looked_at) {
    Recipe copy = recipe;
    const Plan plan = plan_recipe(copy, 0, false, {rank, ranks});
    if (plan.memory.peak > out.memory.peak) out.memory = plan.memory;
    kernels::Cost moves, all = plan.step;
    for (const PartCost& part : plan.parts)
      if (part.part == "optimizer") moves = {part.step_flops, part.step_bytes};
    all.flops -= moves.flops;
    all.bytes -= moves.bytes;
    const int64_t count = recipe.train.gradient_accumulation_steps;
    out.parts = std::max(out.parts, count * (rank + 1) / ranks - count * rank / ranks);
    out.compute = std::max(out.compute, rates.seconds(all));
    out.optimizer = std::max(out.optimizer, rates.seconds(moves));
    out.bytes = std::max(out.bytes, plan.traffic.bytes);
    out.messages = std::max(out.messages, plan.traffic.messages);
  }
  if (ranks > 1) out.messages += messages_of_gathers(ranks, recipe.train.parallel.optimizer_states == "sharded");
  out.transfer = double(out.bytes) / network.bandwidth;
  out.latency = double(out.messages) * network.latency;
  return out;
}

}  // namespace

Network parse_network(const std::string& text) {
  const size_t comma = text.find(',');
  check_usage(comma != text.npos, "plan", "--network must be bandwidth and latency, as 25GB/s,2us; got '", text, "'");
  Network out;
  out.bandwidth = number_with(
      text.substr(0, comma),
      {{"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8}, {"GiB/s", 0x1p30}, {"MiB/s", 0x1p20}, {"GB/s", 1e9}, {"MB/s", 1e6}},
      text);
  out.latency = number_with(text.substr(comma + 1), {{"us", 1e-6}, {"ms", 1e-3}, {"ns", 1e-9}, {"s", 1}}, text);
  return out;
}

std::string RanksPlan::bottleneck() const {
  if (efficiency > 0.95) return "computation";
  const std::pair<double, const char*> losses[] = {
      {compute - even_compute, even ? "computation" : "computation (uneven parts)"},
      {optimizer - even_optimizer, "optimiser"},
      {transfer, "bandwidth"},
      {latency, "latency"}};
  return std::max_element(std::begin(losses), std::end(losses))->second;
}

std::vector<RanksPlan> plan_ranks(Recipe recipe, int ranks, const Network& network) {
  const int64_t parts = recipe.train.gradient_accumulation_steps;
  check_usage(recipe.train.parallel.model() == 1, "plan",
              "--ranks plans ranks that each hold a whole model; leave tensor, pipeline, sequence and expert out of "
              "train.parallel");
  check_usage(parts >= ranks, "plan", "--ranks ", ranks, " divide the ", parts,
              " parts of a step among themselves; set train.gradient_accumulation_steps to ", ranks, " or a multiple");
  check_usage(!recipe.train.carry_state || ranks == 1, "plan",
              "carry_state goes from one part of a step to the next; it runs on one rank");
  const MachineRates rates = measure_rates(recipe.train.compute());
  std::vector<RanksPlan> out;
  for (int n = 1; n < ranks; n *= 2) out.push_back(plan_of(recipe, n, network, rates));
  out.push_back(plan_of(recipe, ranks, network, rates));
  for (RanksPlan& plan : out) {
    plan.even_compute = out.front().compute / plan.ranks;
    plan.even_optimizer = out.front().optimizer / plan.ranks;
    plan.even = parts % plan.ranks == 0;
    plan.efficiency = out.front().seconds() / (double(plan.ranks) * plan.seconds());
  }
  return out;
}

Json ranks_json(const std::vector<RanksPlan>& plans, const Recipe& recipe) {
  Json out = Json::array();
  for (const RanksPlan& p : plans)
    out.push_back({{"ranks", p.ranks},
                   {"parts_of_a_rank", p.parts},
                   {"peak_bytes", p.memory.peak},
                   {"step_seconds", p.seconds()},
                   {"compute_seconds", p.compute},
                   {"optimizer_seconds", p.optimizer},
                   {"transfer_seconds", p.transfer},
                   {"latency_seconds", p.latency},
                   {"message_bytes", p.bytes},
                   {"messages", p.messages},
                   {"tokens_per_second", double(recipe.train.batch_tokens) / p.seconds()},
                   {"efficiency", p.efficiency},
                   {"bottleneck", p.bottleneck()}});
  return out;
}

}  // namespace lithe
