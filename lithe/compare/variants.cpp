#include "lithe/compare/variants.h"

#include <algorithm>
#include <map>

#include "lithe/base/error.h"
#include "lithe/objective/objective.h"

namespace lithe::compare {
namespace {

// What must be the same however it is declared: other text, another order of it, or another amount is another task.
const char* const kNeverFair[] = {"data", "translation", "translate",          "task",
                                  "eval", "train.seed",  "train.batch_tokens", "train.gradient_accumulation_steps"};
const char* const kLimits[] = {"train.max_steps", "train.max_tokens", "train.num_train_epochs", "train.max_time"};
// Where and how often something is written changes no result.
const char* const kHarmless[] = {
    "generate",         "data.cache_directory", "eval.batch_tokens",  "train.logging_steps",
    "train.eval_steps", "train.save_steps",     "train.sample_steps", "train.save_total_limit"};
const char* const kCache = "generate.cache_dtype";  // but the type of the cache is timed and counted

bool below(const std::string& key, const std::string& path) { return key == path || key.starts_with(path + "."); }

template <class Paths>
bool below_any(const std::string& key, const Paths& paths) {
  return std::any_of(std::begin(paths), std::end(paths), [&](const auto& path) { return below(key, path); });
}

void gather_leaves(const Node& node, const std::string& path, std::vector<std::pair<std::string, std::string>>& out) {
  if (node.is_map() && !node.entries().empty()) {
    for (const auto& [key, value] : node.entries()) gather_leaves(value, path.empty() ? key : path + "." + key, out);
  } else if (node.is_list()) {
    std::string text = "[";
    for (const Node& item : node.items()) text += (text.size() > 1 ? ", " : "") + item.text();
    out.emplace_back(path, text + "]");
  } else {
    out.emplace_back(path, node.text());
  }
}

Recipe read_named(const Variant& variant) {
  try {
    return load_recipe(variant.file, variant.overrides);
  } catch (const Error& error) {
    throw Error(variant.operation, cat("variant '", variant.name, "': ", error.what()), error.code());
  }
}

std::string assignment(const std::pair<std::string, Node>& override) {
  std::string value = to_yaml(override.second);
  while (!value.empty() && value.back() == '\n') value.pop_back();
  return override.first + "=" + value;
}

std::string quoted_or_unset(const std::string& value) { return value.empty() ? "unset" : "'" + value + "'"; }

}  // namespace

std::vector<std::pair<std::string, std::string>> leaves(const Recipe& recipe) {
  std::vector<std::pair<std::string, std::string>> out;
  gather_leaves(resolved(recipe), "", out);
  return out;
}

bool Variant::translates() const {
  return make_objective(recipe.train.objective)->learns_from() == Lessons::translation;
}

bool Variant::labels() const { return make_objective(recipe.train.objective)->learns_from() == Lessons::task; }

std::vector<Variant> make_variants(const Experiment& experiment, const std::string& operation) {
  std::vector<Variant> out;
  for (const VariantConfig& config : experiment.variants) {
    Variant v;
    v.name = config.name;
    v.operation = operation;
    v.file = experiment.recipe_of(config);
    for (const auto& entry : experiment.set) v.overrides.push_back(assignment(entry));
    for (const auto& entry : config.override) {
      v.overrides.push_back(assignment(entry));
      // Another type of part has other options beside it.
      const std::string& key = entry.first;
      v.declared.push_back(key.ends_with(".type") ? key.substr(0, key.size() - 5) : key);
    }
    v.recipe = read_named(v);
    out.push_back(std::move(v));
  }
  return out;
}

void override_variant(Variant& variant, const std::vector<std::string>& overrides) {
  variant.overrides.insert(variant.overrides.end(), overrides.begin(), overrides.end());
  variant.recipe = read_named(variant);
}

void check_fairness(std::vector<Variant>& variants, const Experiment& experiment) {
  const auto base =
      std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == experiment.baseline; });
  check(base != variants.end(), "compare", "no baseline '", experiment.baseline, "'");
  for (const std::string& key : experiment.declare)
    check_usage(std::any_of(variants.begin(), variants.end(),
                            [&](const Variant& v) {
                              const auto all = leaves(v.recipe);
                              return std::any_of(all.begin(), all.end(),
                                                 [&](const auto& leaf) { return below(leaf.first, key); });
                            }),
                "experiment", "declare names '", key, "', which no variant's recipe has; correct or remove it");
  const auto baseline = leaves(base->recipe);
  for (const Variant& v : variants)
    check_usage(v.recipe.train.objective.type == base->recipe.train.objective.type, "compare",
                "train.objective must be the same in all variants: it is ", v.recipe.train.objective.type, " in '",
                v.name, "' and ", base->recipe.train.objective.type, " in '", base->name,
                "', whose scores say nothing about each other; give each objective an experiment of its own");
  for (Variant& v : variants) {
    check_usage(v.recipe.train.max_time == 0, "compare", "variant '", v.name,
                "': train.max_time ends a run by the clock, which gives other results each time; remove it, or match "
                "time with budget: {match: time}");
    std::map<std::string, std::string> before(baseline.begin(), baseline.end()), after;
    for (const auto& [key, value] : leaves(v.recipe)) after[key] = value;
    for (const auto& [key, value] : before) after.try_emplace(key);
    v.changes.clear();
    std::vector<std::string> undeclared;
    for (const auto& [key, value] : after) {
      const auto at = before.find(key);
      const std::string there = at == before.end() ? "" : at->second;
      if (there == value || (below_any(key, kHarmless) && key != kCache)) continue;
      const bool solved = below_any(key, v.solved) || below_any(key, base->solved);
      const std::string values = cat("it is ", quoted_or_unset(value), " in '", v.name, "' and ",
                                     quoted_or_unset(there), " in '", base->name, "'");
      check_usage(!below_any(key, kNeverFair), "compare", key, " must be the same in all variants: ", values,
                  "; set it for all of them under set");
      check_usage(solved || experiment.budget.match == "none" || !below_any(key, kLimits), "compare", key,
                  " is given by the budget (match: ", experiment.budget.match, "): ", values,
                  "; remove it, or say budget: {match: none}");
      if (!solved && !below_any(key, v.declared) && !below_any(key, base->declared) &&
          !below_any(key, experiment.declare))
        undeclared.push_back(cat(key, " (", quoted_or_unset(value), " in '", v.name, "', ", quoted_or_unset(there),
                                 " in '", base->name, "')"));
      v.changes.push_back({key, there, value, solved});
    }
    std::string list;
    for (const std::string& one : undeclared) list += (list.empty() ? "" : ", ") + one;
    check_usage(undeclared.empty(), "compare", "what differs must be declared, and this is not: ", list,
                "; make it equal, or add the key to declare");
  }
}

SharedStart shared_start(const ModelConfig& baseline, const ModelConfig& variant) {
  const ModelOptions options{.device = Device::meta, .trainable = true};
  const Model a(baseline, options), b(variant, options);
  std::map<std::string, Shape> shapes;
  for (const Parameter& p : a.parameters().all()) shapes.emplace(p.name, p.master.value().shape());
  SharedStart out;
  for (const Parameter& p : b.parameters().all()) {
    const auto at = shapes.find(p.name);
    out.all += p.master.value().numel();
    if (at != shapes.end() && at->second == p.master.value().shape()) out.shared += p.master.value().numel();
  }
  return out;
}

}  // namespace lithe::compare
