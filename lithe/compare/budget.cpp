#include "lithe/compare/budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lithe/base/error.h"
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
  const Node* at = &recipe;
  std::string_view rest = key;
  while (at && !rest.empty()) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    at = at->find(rest.substr(0, dot));
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  int64_t value = 0;
  const bool whole = at && at->is_scalar() &&
                     std::from_chars(at->text().data(), at->text().data() + at->text().size(), value).ptr ==
                         at->text().data() + at->text().size();
  check_usage(whole, "budget", "budget.solve '", key, "' is not a whole-number key of variant '", v.name, "'");
  return value;
}

class WidthSolver {
 public:
  WidthSolver(const Variant& variant, const BudgetConfig& budget, double target, const TextSizes& text)
      : variant_(variant), budget_(budget), target_(target), text_(text) {}

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
  const TextSizes& text_;

  double amount(const Variant& v) const { return amount_of(v, budget_.match); }

  Variant at(int64_t multiples) const {
    Variant v = variant_;
    const int64_t value = multiples * budget_.multiple_of;
    v.share.key = budget_.solve;
    v.share.from = value_at(variant_, budget_.solve);
    v.solved.push_back(budget_.solve);
    try {
      override_variant(v, {cat(budget_.solve, "=", value)});
      plan_variant(v, text_);
    } catch (const Error& error) {
      throw Error("budget",
                  cat("while trying ", budget_.solve, " ", value, ": ", error.what(),
                      "; budget.multiple_of keeps to values that can be built"),
                  error.code());
    }
    return v;
  }
};

Plan stage_plan(const ModelConfig& model, const Variant& v, const TextSizes& text) {
  return plan_training(
      model, v.recipe.train,
      {.sequence_length = v.recipe.data.sequence_length, .evaluation = {text.evaluation_rows}, .training = {}}, false);
}

void set_steps(Variant& v, double steps, const TextSizes& text) {
  check_usage(steps < 0x1p53, "budget", "variant '", v.name, "' would take ", steps,
              " steps, more than can be counted; lower budget.amount");
  v.share.key = "train.max_steps";
  v.share.from = v.steps;
  v.share.to = std::max<int64_t>(1, int64_t(steps));
  v.solved.insert(v.solved.end(), {"train.max_steps", "train.max_tokens", "train.num_train_epochs"});
  override_variant(v, {cat("train.max_steps=", v.share.to), "train.max_tokens=0", "train.num_train_epochs=0"});
  plan_variant(v, text);
}

}  // namespace

ModelConfig complete_model(const Recipe& recipe, const TextSizes& text) {
  ModelConfig model = recipe.model;
  if (text.translations) {
    fit_model(model, text.translations->data, recipe);
    return model;
  }
  if (text.examples) {
    fit_model(model, *text.examples, recipe);
    return model;
  }
  model.complete(text.vocabulary, 1, recipe.data.sequence_length);
  return model;
}

void plan_variant(Variant& v, const TextSizes& text) {
  try {
    const TrainConfig& train = v.recipe.train;
    train.validate(v.recipe.data.sequence_length);
    const ModelConfig model = complete_model(v.recipe, text);
    if (text.translations) {
      v.plan = plan_translation(model, v.recipe, *text.translations);
      v.step_tokens = text.translations->batch_rows() * double(train.gradient_accumulation_steps);
    } else if (text.examples) {
      const BatchSource& batches = *text.examples->train;
      v.plan = plan_training(model, train,
                             {.sequence_length = v.recipe.data.sequence_length,
                              .evaluation = {text.evaluation_rows},
                              .training = {batches.largest_batch(), batches.largest_source()}},
                             false);
      v.step_tokens = double(batches.largest_batch() * train.gradient_accumulation_steps);
    } else {
      v.plan = stage_plan(last_config(model, train.growth), v, text);
      v.step_tokens = double(train.batch_tokens);
    }
    v.steps = train.total_steps(text.batches_per_epoch);
    v.spared_flops = 0;
    int64_t begun = 0;
    for (size_t i = 0; i < train.growth.steps.size(); ++i) {
      const int64_t ends = std::min(v.steps, train.growth.steps[i]);
      const Plan small = stage_plan(config_of_stage(model, train.growth, int64_t(i)), v, text);
      v.spared_flops += (v.plan.step.flops - small.step.flops) * double(ends - begun);
      begun = ends;
    }
  } catch (const Error& error) {
    throw Error("compare", cat("variant '", v.name, "': ", error.what()), error.code());
  }
}

void match_budget(std::vector<Variant>& variants, const Experiment& experiment, const TextSizes& text,
                  const std::function<std::vector<double>(const std::vector<Variant>&)>& step_seconds) {
  const BudgetConfig& budget = experiment.budget;
  for (Variant& v : variants) plan_variant(v, text);
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
      set_steps(v, target / v.step_tokens, text);
    else if (free && steps_follow)
      set_steps(v, std::round(target / (amount(i) / double(v.steps))), text);
    else if (free && !budget.solve.empty())
      v = WidthSolver(v, budget, target, text).solve();
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
