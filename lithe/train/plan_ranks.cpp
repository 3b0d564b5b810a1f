#include "lithe/train/plan_ranks.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/counted.h"
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

RanksPlan plan_of(const Recipe& recipe, PlanShape shape, ParallelConfig parallel, const Network& network,
                  const MachineRates& rates) {
  RanksPlan out{.parallel = parallel};
  TrainConfig train = recipe.train;
  train.parallel = parallel;
  const auto copies = int(parallel.data);
  shape.ranks = copies;
  const int64_t count = train.gradient_accumulation_steps, others = parallel.pipeline - 1;
  for_each_plan(recipe.model, train, shape, [&](int, int copy, const Plan& plan) {
    if (plan.memory.peak > out.memory.peak) out.memory = plan.memory;
    kernels::Cost moves, all = plan.step;
    for (const PartCost& part : plan.parts)
      if (part.part == "optimizer") moves = {part.step_flops, part.step_bytes};
    all.flops -= moves.flops;
    all.bytes -= moves.bytes;
    const int64_t parts = count * (copy + 1) / copies - count * copy / copies;
    out.parts = std::max(out.parts, parts);
    const double seconds = rates.seconds(all);
    out.compute = std::max(out.compute, seconds);
    out.waiting = std::max(out.waiting, seconds * double(others) / double(parts));
    out.optimizer = std::max(out.optimizer, rates.seconds(moves));
    out.bytes = std::max(out.bytes, plan.traffic.bytes);
    out.messages = std::max(out.messages, plan.traffic.messages);
  });
  const auto ranks = int(out.ranks());
  if (ranks > 1) out.messages += messages_of_gathers(ranks, parallel.optimizer_states == "sharded");
  out.transfer = double(out.bytes) / network.bandwidth;
  out.latency = double(out.messages) * network.latency;
  out.even = count % copies == 0;
  return out;
}

ParallelConfig alone(ParallelConfig parallel) {
  parallel.data = parallel.tensor = parallel.pipeline = parallel.sequence = parallel.expert = 1;
  return parallel;
}

// Beside one rank with a whole model.
void compare(RanksPlan& plan, const RanksPlan& one) {
  const auto ranks = double(plan.ranks());
  plan.even_compute = one.compute / ranks;
  plan.even_optimizer = one.optimizer / ranks;
  plan.efficiency = one.seconds() / (ranks * plan.seconds());
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
      {compute - even_compute, !even                  ? "computation (uneven parts)"
                               : parallel.model() > 1 ? "computation (not all of it is divided)"
                                                      : "computation"},
      {optimizer - even_optimizer, "optimiser"},
      {transfer, "bandwidth"},
      {latency, "latency"},
      {waiting, "stages that wait"}};
  return std::max_element(std::begin(losses), std::end(losses))->second;
}

namespace {

PlanShape complete_to_plan_ranks(Recipe& recipe, int ranks) {
  const PlanShape shape = complete_to_plan(recipe);
  check_usage(!recipe.train.carry_state || ranks == 1, "plan",
              "carry_state goes from one part of a step to the next; it runs on one rank");
  return shape;
}

}  // namespace

std::vector<RanksPlan> plan_ranks(Recipe recipe, int ranks, const Network& network) {
  const PlanShape shape = complete_to_plan_ranks(recipe, ranks);
  ParallelConfig parallel = recipe.train.parallel;
  const int64_t parts = recipe.train.gradient_accumulation_steps, model = parallel.model();
  check_usage(ranks % model == 0, "plan", "train.parallel {", division_text(parallel), "} has copies of ", model,
              " ranks, and --ranks ", ranks, " is no multiple of them");
  const int64_t copies = ranks / model;
  check_usage(!parallel.data || parallel.data == copies, "plan", "train.parallel {", division_text(parallel), "} has ",
              parallel.data * model, " ranks, and --ranks is ", ranks, "; set data to ", copies, " or to 0");
  check_usage(parts >= copies, "plan", "--ranks ", ranks, " have ", copies, " copies of the model, which divide the ",
              counted(parts, "part"), " of a step among themselves; set train.gradient_accumulation_steps to ", copies,
              " or a multiple");
  const MachineRates rates = measure_rates(recipe.train.compute());
  std::vector<RanksPlan> out{plan_of(recipe, shape, alone(parallel), network, rates)};
  const auto with_copies = [&](int64_t n) {
    parallel.data = n;
    if (n * model > 1) out.push_back(plan_of(recipe, shape, parallel, network, rates));
  };
  for (int64_t n = 1; n < copies; n *= 2) with_copies(n);
  with_copies(copies);
  for (RanksPlan& plan : out) compare(plan, out.front());
  return out;
}

std::vector<RanksPlan> propose_divisions(Recipe recipe, int ranks, const Network& network, int64_t budget) {
  const PlanShape shape = complete_to_plan_ranks(recipe, ranks);
  const MachineRates rates = measure_rates(recipe.train.compute());
  const ParallelConfig given = recipe.train.parallel;
  const RanksPlan one = plan_of(recipe, shape, alone(given), network, rates);
  std::vector<RanksPlan> out;
  std::string refusal;
  const auto consider = [&](const ParallelConfig& parallel) {
    try {
      TrainConfig train = recipe.train;
      train.parallel = parallel;
      train.validate(recipe.data.sequence_length);
      RanksPlan plan = plan_of(recipe, shape, parallel, network, rates);
      compare(plan, one);
      if (!budget || plan.memory.peak <= budget)
        out.push_back(std::move(plan));
      else
        refusal = cat(division_text(parallel), " needs ", format_bytes(double(plan.memory.peak)), " on a rank");
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      refusal = error.what();
    }
  };
  ParallelConfig p = alone(given);
  for (p.tensor = 1; p.model() <= ranks; p.tensor *= 2) {
    for (p.pipeline = 1; p.model() <= ranks; p.pipeline *= 2) {
      for (p.sequence = 1; p.model() <= ranks; p.sequence *= 2) {
        for (p.expert = 1; p.model() <= ranks; p.expert *= 2) {
          if (ranks % p.model()) continue;
          p.data = ranks / p.model();
          consider(p);
        }
        p.expert = 1;
      }
      p.sequence = 1;
    }
    p.pipeline = 1;
  }
  check_usage(!out.empty(), "plan", "no division of ", ranks,
              " ranks by powers of two suits the recipe; the last one: ", refusal);
  std::stable_sort(out.begin(), out.end(),
                   [](const RanksPlan& a, const RanksPlan& b) { return a.seconds() < b.seconds(); });
  return out;
}

std::vector<std::pair<const char*, int64_t>> division_sizes(const ParallelConfig& parallel) {
  return {{"data", parallel.data},
          {"tensor", parallel.tensor},
          {"pipeline", parallel.pipeline},
          {"sequence", parallel.sequence},
          {"expert", parallel.expert}};
}

std::string division_text(const ParallelConfig& parallel) {
  std::string out;
  for (const auto& [name, size] : division_sizes(parallel))
    if (size > 1) out += cat(out.empty() ? "" : ", ", name, " ", size);
  return out.empty() ? "one rank" : out;
}

Json ranks_json(const std::vector<RanksPlan>& plans, const Recipe& recipe) {
  Json out = Json::array();
  for (const RanksPlan& p : plans) {
    out.push_back({{"ranks", p.ranks()},
                   {"parts_of_a_rank", p.parts},
                   {"peak_bytes", p.memory.peak},
                   {"step_seconds", p.seconds()},
                   {"compute_seconds", p.compute},
                   {"optimizer_seconds", p.optimizer},
                   {"transfer_seconds", p.transfer},
                   {"latency_seconds", p.latency},
                   {"waiting_seconds", p.waiting},
                   {"message_bytes", p.bytes},
                   {"messages", p.messages},
                   {"tokens_per_second", double(recipe.train.batch_tokens) / p.seconds()},
                   {"efficiency", p.efficiency},
                   {"bottleneck", p.bottleneck()}});
    for (const auto& [name, size] : division_sizes(p.parallel)) out.back()[name] = size;
  }
  return out;
}

}  // namespace lithe
