// Which units stay under a budget (prune_run.h).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/compress/prune_run.h"
#include "lithe/kernels/kernel.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

constexpr double kSmallest = 1.0 / 4096;  // steps in which the share to be taken out is searched

Tensor some_tokens(const Model& model, int64_t rows) {
  const int64_t width = std::max<int64_t>(model.config().token_width, 1);
  return width == 1 ? empty({rows}, DType::i32, Device::meta) : empty({rows, width}, DType::i32, Device::meta);
}

int64_t longest(const Model& model) {
  const int64_t limit = model.position_limit(), named = model.config().max_position_embeddings;
  return limit ? limit : std::max<int64_t>(named, 64);
}

std::vector<int64_t> best_of(const std::vector<double>& scores, int64_t count) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return scores[size_t(a)] > scores[size_t(b)]; });
  order.resize(size_t(count));
  std::sort(order.begin(), order.end());
  return order;
}

// Widths of vectors stay multiples where they are large.
int64_t rounded(const PruneGroup& group, int64_t count, int64_t multiple) {
  const bool wide = group.unit == PruneUnit::ffn || group.unit == PruneUnit::hidden;
  if (wide && multiple > 1 && group.count >= 4 * multiple) count = (count + multiple - 1) / multiple * multiple;
  return std::clamp<int64_t>(count, 1, group.count);
}

// Of each group as much as `share` less than it has.
PruneKept kept_in_each(const std::vector<PruneGroup>& groups, const Importance& importance, double share,
                       int64_t multiple) {
  PruneKept out;
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t count = rounded(groups[g], std::llround(double(groups[g].count) * (1 - share)), multiple);
    if (count < groups[g].count) out[{groups[g].name(), groups[g].unit}] = best_of(importance[g], count);
  }
  return out;
}

// Of all units of a kind as many as `share` less than there are; each group keeps one.
PruneKept kept_in_all(const std::vector<PruneGroup>& groups, const Importance& importance, double share,
                      int64_t multiple) {
  struct Unit {
    double score;
    size_t group;
    int64_t index;
  };
  std::map<PruneUnit, std::vector<Unit>> units;
  for (size_t g = 0; g < groups.size(); ++g)
    for (int64_t i = 0; i < groups[g].count; ++i) units[groups[g].unit].push_back({importance[g][size_t(i)], g, i});
  std::vector<int64_t> counts(groups.size(), 0);
  for (auto& [unit, all] : units) {
    std::ranges::stable_sort(all, [](const Unit& a, const Unit& b) { return a.score > b.score; });
    const auto stay = size_t(std::llround(double(all.size()) * (1 - share)));
    for (size_t i = 0; i < std::min(stay, all.size()); ++i) ++counts[all[i].group];
  }
  PruneKept out;
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t count = rounded(groups[g], counts[g], multiple);
    if (count < groups[g].count) out[{groups[g].name(), groups[g].unit}] = best_of(importance[g], count);
  }
  return out;
}

}  // namespace

double budget_of(const Model& model, const std::string& budget) {
  if (budget == "parameters") return double(model.parameters().count());
  const int64_t rows = longest(model);
  if (budget == "memory") {
    double bytes = 0;
    for (const Parameter& p : model.parameters().all()) bytes += double(p.master.value().bytes());
    return bytes + (sees_ahead(model.config().architecture) ? 0 : double(model.state_bytes({rows}, {rows})));
  }
  const kernels::CostMeter meter;
  const NoGrad no_grad;
  Pass pass;
  const Sequences one = Sequences::single(rows, Device::meta);
  ModelInput input{some_tokens(model, rows), one};
  if (reads_source(model.config().architecture))
    for (const std::string& name : model.config().source_names()) input.sources[name] = {some_tokens(model, rows), one};
  (void)model.logits(model.run(input, pass));
  return meter.total().flops;
}

PruneKept choose_kept(const ModelConfig& config, const std::vector<PruneGroup>& groups, const Importance& importance,
                      const PruneRequest& request, double target) {
  const Model whole(config, {.device = Device::meta});
  const auto at = [&](double share) {
    return request.across_model ? kept_in_all(groups, importance, share, request.multiple)
                                : kept_in_each(groups, importance, share, request.multiple);
  };
  const auto cost = [&](double share) {
    return budget_of(Model(pruned_config(whole, at(share)), {.device = Device::meta}), request.budget);
  };
  const double least = cost(1);
  check_usage(least <= target, "prune", "--to ", request.to, " needs ", request.budget, " of at most ", target,
              ", and without all of ", groups.size(), " groups but one unit each there are still ", least,
              "; take out more (--units heads,ffn,hidden,layers), or give --to ",
              std::ceil(1000 * least / budget_of(whole, request.budget)) / 1000, " or more");
  double low = 0, high = 1;  // what low takes out is too little, what high does is enough
  if (cost(0) <= target) return at(0);
  while (high - low > kSmallest) {
    const double middle = (low + high) / 2;
    (cost(middle) <= target ? high : low) = middle;
  }
  return at(high);
}

}  // namespace lithe
