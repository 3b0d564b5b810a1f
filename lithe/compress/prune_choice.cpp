// Which units stay under a budget (prune_run.h).
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

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

// A forward pass over one sequence, without numbers.
void run_outline(const Model& model, int64_t rows) {
  const NoGrad no_grad;
  Pass pass;
  const Sequences one = Sequences::single(rows, Device::meta);
  ModelInput input{some_tokens(model, rows), one};
  if (reads_source(model.config().architecture))
    for (const std::string& name : model.config().source_names()) input.sources[name] = {some_tokens(model, rows), one};
  (void)model.logits(model.run(input, pass));
}

// Units of a group that are fixed rank before all others.
double score_of(const PruneGroup& group, const std::vector<double>& scores, int64_t unit) {
  return group.fixed.count(unit) ? INFINITY : scores[size_t(unit)];
}
std::vector<int64_t> ranked(const PruneGroup& group, const std::vector<double>& scores) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int64_t a, int64_t b) { return score_of(group, scores, a) > score_of(group, scores, b); });
  return order;
}

// Searches the units that stay. Counts are of each group, shares (that go) of each kind of unit.
class Choice {
 public:
  Choice(const ModelConfig& config, const std::vector<PruneGroup>& groups, const Importance& importance,
         const PruneRequest& request)
      : whole_(config, {.device = Device::meta}), groups_(groups), importance_(importance), request_(request) {
    for (size_t g = 0; g < groups.size(); ++g) {
      order_.push_back(ranked(groups[g], importance[g]));
      kinds_.insert(groups[g].unit);
    }
    runs_ = reason_against(whole_).empty();
    most_ = budget_of(whole_, request.budget);
  }

  PruneKept best(double target) {
    const auto same = [&](double share) {
      std::map<PruneUnit, double> out;
      for (const PruneUnit unit : kinds_) out[unit] = share;
      return out;
    };
    if (most_ <= target) return {};
    double high = first_within(target, same);
    if (high > 1) refuse(target);
    const auto least_of = [&](double enough, const auto& shares) {
      for (double little = 0; enough - little > kSmallest;) {
        const double middle = (little + enough) / 2;
        (cost(counts_at(shares(middle))) <= target ? enough : little) = middle;
      }
      return enough;
    };
    high = least_of(high, same);
    // One share for all leaves a gap where units are large: each kind gets back what fits, then each group.
    std::map<PruneUnit, double> shares = same(high);
    for (const PruneUnit unit : kCoarseFirst) {
      if (!kinds_.count(unit)) continue;
      const auto with = [&](double share) {
        std::map<PruneUnit, double> out = shares;
        out[unit] = share;
        return out;
      };
      shares[unit] = cost(counts_at(with(0))) <= target ? 0 : least_of(high, with);
    }
    std::vector<int64_t> counts = counts_at(shares);
    for (const PruneUnit unit : kCoarseFirst) {
      // Heads and widths stay equal in all layers, as an export needs them.
      if (!request_.across_model && unit != PruneUnit::layers && unit != PruneUnit::sub_layers) continue;
      for (const size_t g : by_next_unit(unit, counts)) {
        std::vector<int64_t> more = counts;
        more[g] = stays(g, counts[g] + 1);
        if (cost(more) <= target) counts = more;
      }
    }
    return kept_of(counts);
  }

 private:
  static constexpr PruneUnit kCoarseFirst[] = {PruneUnit::layers, PruneUnit::sub_layers, PruneUnit::experts,
                                               PruneUnit::heads,  PruneUnit::hidden,     PruneUnit::ffn};
  const Model whole_;
  const std::vector<PruneGroup>& groups_;
  const Importance& importance_;
  const PruneRequest& request_;
  std::vector<std::vector<int64_t>> order_;
  std::set<PruneUnit> kinds_;
  bool runs_ = false;  // the whole model takes tokens alone, so that a smaller one must, too
  double most_ = 0, least_ = INFINITY;
  std::string reason_;  // why the last one that is none is none
  std::map<int64_t, bool> widths_;

  // Why a model cannot run; empty: it can.
  static std::string reason_against(const Model& model) {
    try {
      run_outline(model, std::min<int64_t>(longest(model), 64));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  // Of the budget; infinite where the parts refuse such a model.
  double cost(const std::vector<int64_t>& counts) {
    try {
      const auto model = prune(whole_, kept_of(counts));
      if (const std::string reason = runs_ ? reason_against(*model) : ""; !reason.empty()) {
        reason_ = reason;
        return INFINITY;
      }
      const double cost = budget_of(*model, request_.budget);
      least_ = std::min(least_, cost);
      return cost;
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      reason_ = error.what();
      return INFINITY;
    }
  }

  // The largest share whose model is not refused, if it is enough; above 1: none. Mostly 1.
  template <class Shares>
  double first_within(double target, const Shares& shares) {
    constexpr int64_t kTries = 64;
    for (int64_t i = kTries; i > 0; --i) {
      const double share = double(i) / kTries, of = cost(counts_at(shares(share)));
      if (of <= target) return share;
      if (std::isfinite(of)) break;  // a smaller share takes out less
    }
    return 2;
  }

  [[noreturn]] void refuse(double target) const {
    const double least = std::min(least_, most_);
    fail_usage("prune", "--to ", request_.to, " needs ", request_.budget, " of at most ", target,
               ", and without all of ", groups_.size(),
               " groups but one unit each (or what other parts need) there are still ", least,
               reason_.empty() ? "" : "; a smaller one is refused: ", reason_,
               "; take out more (--units heads,ffn,hidden,layers)",
               least < most_ ? cat(", or give --to ", std::ceil(1000 * least / most_) / 1000, " or more") : "");
  }

  // Not all parts take every width of the rows.
  bool takes(const PruneGroup& group, int64_t width) {
    const auto [at, is_new] = widths_.emplace(width, true);
    if (!is_new || width == group.count) return at->second;
    std::vector<int64_t> channels(static_cast<size_t>(width));
    std::iota(channels.begin(), channels.end(), 0);
    try {
      (void)prune(whole_, {{{group.name(), group.unit}, channels}});
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      reason_ = error.what();
      at->second = false;
    }
    return at->second;
  }

  // How many of a group stay where `count` would: widths of vectors stay multiples where they are large.
  int64_t stays(size_t g, int64_t count) {
    const PruneGroup& group = groups_[g];
    const bool wide = group.unit == PruneUnit::ffn || group.unit == PruneUnit::hidden;
    const int64_t step = wide && group.count >= 4 * request_.multiple ? request_.multiple : 1;
    const auto fits = [&](int64_t n) { return std::clamp((n + step - 1) / step * step, int64_t(1), group.count); };
    int64_t out = std::max(fits(count), int64_t(group.fixed.size()));
    while (group.unit == PruneUnit::hidden && out < group.count && !takes(group, out)) out = fits(out + 1);
    return out;
  }

  std::vector<int64_t> counts_at(const std::map<PruneUnit, double>& shares) {
    std::vector<int64_t> out(groups_.size(), 0);
    if (request_.across_model)
      out = best_of_all(shares);
    else
      for (size_t g = 0; g < groups_.size(); ++g)
        out[g] = std::llround(double(groups_[g].count) * (1 - shares.at(groups_[g].unit)));
    for (size_t g = 0; g < groups_.size(); ++g) out[g] = stays(g, out[g]);
    return out;
  }

  // Units of a kind compete, whichever group has them.
  std::vector<int64_t> best_of_all(const std::map<PruneUnit, double>& shares) const {
    struct Unit {
      double score;
      size_t group;
    };
    std::map<PruneUnit, std::vector<Unit>> units;
    for (size_t g = 0; g < groups_.size(); ++g)
      for (int64_t i = 0; i < groups_[g].count; ++i)
        units[groups_[g].unit].push_back({score_of(groups_[g], importance_[g], i), g});
    std::vector<int64_t> out(groups_.size(), 0);
    for (auto& [unit, all] : units) {
      std::ranges::stable_sort(all, [](const Unit& a, const Unit& b) { return a.score > b.score; });
      const auto stay = size_t(std::llround(double(all.size()) * (1 - shares.at(unit))));
      for (size_t i = 0; i < std::min(stay, all.size()); ++i) ++out[all[i].group];
    }
    return out;
  }

  // Groups of that kind that lack units, the one with the best unit first.
  std::vector<size_t> by_next_unit(PruneUnit unit, const std::vector<int64_t>& counts) const {
    std::vector<size_t> out;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].unit == unit && counts[g] < groups_[g].count) out.push_back(g);
    const auto next = [&](size_t g) { return importance_[g][size_t(order_[g][size_t(counts[g])])]; };
    std::ranges::stable_sort(out, [&](size_t a, size_t b) { return next(a) > next(b); });
    return out;
  }

  PruneKept kept_of(const std::vector<int64_t>& counts) const {
    PruneKept out;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (counts[g] == groups_[g].count) continue;
      std::vector<int64_t> units(order_[g].begin(), order_[g].begin() + counts[g]);
      std::ranges::sort(units);
      out[{groups_[g].name(), groups_[g].unit}] = units;
    }
    return out;
  }
};

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
  run_outline(model, rows);
  return meter.total().flops;
}

double budget_of(const ModelConfig& config, const std::string& budget) {
  return budget_of(Model(config, {.device = Device::meta}), budget);
}

PruneKept choose_kept(const ModelConfig& config, const std::vector<PruneGroup>& groups, const Importance& importance,
                      const PruneRequest& request, double target) {
  return Choice(config, groups, importance, request).best(target);
}

}  // namespace lithe
