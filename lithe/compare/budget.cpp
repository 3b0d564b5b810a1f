#include "lithe/compare/budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/base/node_path.h"
#include "lithe/model/model.h"
#include "lithe/report/format.h"
#include "lithe/train/growth.h"

namespace lithe::compare {
namespace {

constexpr int64_t kWidest = int64_t(1) << 22;

std::string shown(double amount) { return report::format_number(amount, 6); }

double relative(double amount, double target) { return std::abs(amount - target) / target; }

// A variant's amount of the matched quantity.
double amount_of(const Variant& v, const std::string& match) {
  if (match == "parameters") return double(v.plan.parameters);
  if (match == "flops") return v.training_flops();
  return v.step_tokens * double(v.steps);
}

int64_t value_at(const Variant& v, const std::string& key) {
  const Node recipe = resolved(v.recipe);
  const Node* given = node_at(recipe, key);
  const std::string text = given && given->is_scalar() ? given->text() : "";
  int64_t value = 0;
  const bool whole =
      !text.empty() && std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size();
  check_usage(whole, "budget", "budget.solve '", key, "' is not a whole-number key of variant '", v.name, "'");
  return value;
}

class WidthSolver {
 public:
  WidthSolver(const Variant& variant, const BudgetConfig& budget, double target, const Material& material)
      : variant_(variant), budget_(budget), target_(target), material_(material) {}

  Variant solve() {
    const int64_t m = budget_.multiple_of;
    int64_t low = 1, high = 2;  // in multiples
    Variant best = at(low);
    check_usage(amount(best) <= target_ * (1 + budget_.tolerance), "budget", "variant '", variant_.name, "' has ",
                shown(amount(best)), " ", budget_.match, " even with ", budget_.solve, " ", m, ", the budget is ",
                shown(target_), "; solve for another key or give a larger budget");
    Variant above = at(high);
    while (amount(above) < target_ && high * m < kWidest) {
      low = high;
      best = std::move(above);
      high *= 2;
      above = at(high);
    }
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      Variant between = at(middle);
      if (amount(between) < target_) {
        low = middle;
        best = std::move(between);
      } else {
        high = middle;
        above = std::move(between);
      }
    }
    const std::string tried = cat(budget_.solve, " ", low * m, " gives ", shown(amount(best)), " and ", high * m,
                                  " gives ", shown(amount(above)));
    if (relative(amount(above), target_) < relative(amount(best), target_)) best = std::move(above);
    check_usage(relative(amount(best), target_) <= budget_.tolerance, "budget", "variant '", variant_.name,
                "' cannot match ", shown(target_), " ", budget_.match, " within ", 100 * budget_.tolerance,
                " %: ", tried,
                "; give a larger budget.tolerance, a smaller budget.multiple_of, or solve for another key");
    best.share.to = value_at(best, budget_.solve);
    return best;
  }

 private:
  const Variant& variant_;
  const BudgetConfig& budget_;
  double target_;
  const Material& material_;

  double amount(const Variant& v) const { return amount_of(v, budget_.match); }

  Variant at(int64_t multiples) const {
    Variant v = variant_;
    const int64_t value = multiples * budget_.multiple_of;
    v.share.key = budget_.solve;
    v.share.from = value_at(variant_, budget_.solve);
    v.solved.push_back(budget_.solve);
    try {
      override_variant(v, {cat(budget_.solve, "=", value)});
      plan_variant(v, material_);
    } catch (const Error& error) {
      throw Error("budget",
                  cat("while trying ", budget_.solve, " ", value, ": ", error.what(),
                      "; budget.multiple_of keeps to values that can be built"),
                  error.code());
    }
    return v;
  }
};

void set_steps(Variant& v, double steps, const Material& material) {
  check_usage(steps < 0x1p53, "budget", "variant '", v.name, "' would take ", steps,
              " steps, more than can be counted; lower budget.amount");
  v.share.key = "train.max_steps";
  v.share.from = v.steps;
  v.share.to = std::max<int64_t>(1, int64_t(steps));
  v.solved.insert(v.solved.end(), {"train.max_steps", "train.max_tokens", "train.num_train_epochs"});
  override_variant(v, {cat("train.max_steps=", v.share.to), "train.max_tokens=0", "train.num_train_epochs=0"});
  plan_variant(v, material);
}

}  // namespace

void plan_variant(Variant& v, const Material& material) {
  try {
    const TrainConfig& train = v.recipe.train;
    train.validate(v.recipe.data.sequence_length);
    const ModelConfig model = material.complete(v.recipe);
    const Material::Work work = material.work(last_config(model, train.growth), v.recipe);
    v.plan = work.plan;
    v.step_tokens = work.step_tokens;
    v.steps = train.total_steps(material.batches().batches_per_epoch());
    v.spared_flops = 0;
    int64_t begun = 0;
    for (size_t i = 0; i < train.growth.steps.size(); ++i) {
      const int64_t ends = std::min(v.steps, train.growth.steps[i]);
      const Plan small = material.work(config_of_stage(model, train.growth, int64_t(i)), v.recipe).plan;
      v.spared_flops += (v.plan.step.flops - small.step.flops) * double(ends - begun);
      begun = ends;
    }
  } catch (const Error& error) {
    throw Error(v.operation, cat("variant '", v.name, "': ", error.what()), error.code());
  }
}

void match_budget(std::vector<Variant>& variants, const Experiment& experiment, const Material& material,
                  const std::function<std::vector<double>(const std::vector<Variant>&)>& step_seconds) {
  const BudgetConfig& budget = experiment.budget;
  for (Variant& v : variants) plan_variant(v, material);
  if (budget.match == "none") return;
  const bool steps_follow = budget.solve.empty() && (budget.match == "flops" || budget.match == "time");
  check_usage(budget.match != "time" || budget.solve.empty(), "budget",
              "match time changes the number of steps, not a width: the time of a width is only known after training "
              "it; remove budget.solve or match flops");
  const Variant& base =
      *std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == experiment.baseline; });
  std::vector<double> seconds(variants.size(), 1);
  if (budget.match == "time") seconds = step_seconds(variants);
  const auto amount = [&](size_t i) {
    return budget.match == "time" ? seconds[i] * double(variants[i].steps) : amount_of(variants[i], budget.match);
  };
  const size_t base_index = size_t(&base - variants.data());
  const double target = budget.amount > 0 ? budget.amount : amount(base_index);
  for (size_t i = 0; i < variants.size(); ++i) {
    Variant& v = variants[i];
    const bool free = budget.amount > 0 || i != base_index;  // the baseline is the budget where none is given
    check_usage(budget.match != "tokens" || target >= v.step_tokens, "budget", "budget.amount is ", shown(target),
                " tokens, one step takes ", shown(v.step_tokens), " (train.batch_tokens); give at least that");
    if (free && budget.match == "tokens" && budget.amount > 0)
      set_steps(v, target / v.step_tokens, material);
    else if (free && steps_follow)
      set_steps(v, std::round(target / (amount(i) / double(v.steps))), material);
    else if (free && !budget.solve.empty())
      v = WidthSolver(v, budget, target, material).solve();
    v.share.amount = amount(i);
    v.share.target = target;
    // Steps come whole: half of one is the best that can be done.
    const double allowed =
        std::max(budget.tolerance * target,
                 steps_follow || budget.match == "tokens" ? target / double(std::max<int64_t>(1, v.steps)) : 0);
    check_usage(std::abs(v.share.amount - target) <= allowed * (1 + 1e-9), "budget", "variant '", v.name, "' has ",
                shown(v.share.amount), " ", budget.match, ", the budget is ", shown(target), " within ",
                100 * budget.tolerance, " %; name a width to solve for, like budget: {match: ", budget.match,
                ", solve: model.ffn.intermediate_size}, or give a larger budget.tolerance");
  }
}

}  // namespace lithe::compare
