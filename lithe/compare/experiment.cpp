#include "lithe/compare/experiment.h"

#include <algorithm>
#include <set>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/recipe/file_kind.h"

namespace lithe::compare {

void BudgetConfig::fields(Fields& f) {
  f("match", match,
    "quantity that is equal in all variants: tokens (of training), parameters, flops or time (of the whole training), "
    "or none",
    one_of({"tokens", "parameters", "flops", "time", "none"}));
  f("solve", solve,
    "a whole-number key of the recipe, like model.ffn.intermediate_size, that is changed in each variant until it "
    "matches; empty: flops and time change the number of steps, parameters must match as they are");
  f("multiple_of", multiple_of, "solved values are multiples of this", at_least(1));
  f("tolerance", tolerance, "relative difference from the budget that still matches", between(0, 1));
  f("amount", amount,
    "the budget itself: tokens, parameters, FLOPs or seconds of training; 0: as in the baseline's recipe", at_least(0));
}

void MeasureConfig::fields(Fields& f) {
  f("prompt_lengths", prompt_lengths, "tokens of the prompts that are timed");
  f("batch_sizes", batch_sizes, "sequences that are timed together");
  f("decode_tokens", decode_tokens, "tokens decoded behind each prompt", at_least(1));
  f("sentences", sentences, "held-out sentences that models of translation translate in each round", at_least(1));
  f("train_steps", train_steps, "optimiser steps timed in each round; 0: training is not timed", at_least(0));
  f("repeats", repeats, "rounds of timing, each of all variants; 0: no timing", at_least(0));
  f("precision", precision, "of the models that are timed and scored", one_of({"f32", "bf16", "f64"}));
}

namespace {

struct File {
  Experiment e;
  Node set, variants;

  void fields(Fields& f) {
    f("recipe", e.recipe, "the recipe that all variants change, relative to this file", {.required = true});
    f.free("set", set, "overrides for all variants: dotted keys of the recipe and their values");
    f("baseline", e.baseline, "the variant that the others are compared with", {.required = true});
    f("peop_baseline", e.peop_baseline,
      "the variant whose parameters PEoP counts from; empty: sha when there is one, else the baseline");
    f.free("variants", variants,
           "name: overrides, which are the declared differences; `recipe` among them names a recipe of its own");
    f("declare", e.declare, "keys that variants with a recipe of their own may differ in, with all below them");
    f("seeds", e.seeds, "one training of every variant for each; initial weights and data order follow from it");
    f("score", e.score,
      "quality that PRR, PEoP and the charts use; default: bleu of translations, the first metric of a task, "
      "token_perplexity "
      "of text",
      one_of({"token_perplexity", "word_perplexity", "bits_per_byte", "bleu", "chrf", "task_metric"}));
    f("confidence", e.confidence, "of intervals, and of all named differences together", between(0.5, 0.9999));
    f.section("budget", e.budget, "what all variants are given");
    f.section("measure", e.measure, "measurements of speed");
  }
};

std::vector<std::pair<std::string, Node>> overrides_of(const Node& node, const std::string& where) {
  std::vector<std::pair<std::string, Node>> out;
  check_usage(node.is_map() || node.is_null(), "experiment", to_string(node.mark()), ": ", where,
              " must hold dotted keys and values, like model.mixer.heads: sha");
  for (const auto& [key, value] : node.entries()) {
    check_usage(key.find('.') != std::string::npos || key == "recipe", "experiment", to_string(value.mark()), ": '",
                key, "' in ", where, " must be a dotted key like model.", key);
    check_usage(key != "train.seed", "experiment", to_string(value.mark()), ": train.seed in ", where,
                ": a comparison trains with each of its seeds; name them as seeds: [1, 2]");
    out.emplace_back(key, value);
  }
  return out;
}

// Names become directories and cells of tables.
void check_name(const std::string& name, const Mark& mark) {
  const bool plain =
      !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+") == std::string::npos;
  check_usage(plain, "experiment", to_string(mark),
              ": a variant's name is letters, digits, _ - . + (at most 64), got '", name, "'");
}

void read_variants(const Node& node, Experiment& e) {
  check_usage(node.is_map() && node.entries().size() >= 2, "experiment",
              node.is_null() ? e.file.string() : to_string(node.mark()), ": variants must name at least two");
  for (const auto& [name, changes] : node.entries()) {
    check_name(name, changes.mark());
    VariantConfig variant{name, "", overrides_of(changes, "variant '" + name + "'")};
    const auto own = std::find_if(variant.override.begin(), variant.override.end(),
                                  [](const auto& entry) { return entry.first == "recipe"; });
    if (own != variant.override.end()) {
      check_usage(own->second.is_scalar(), "experiment", to_string(own->second.mark()), ": recipe must be a file name");
      variant.recipe = own->second.text();
      variant.override.erase(own);
    }
    e.variants.push_back(std::move(variant));
  }
}

void check_known_variant(const Experiment& e, const char* key, const std::string& name) {
  std::vector<std::string> names;
  for (const VariantConfig& v : e.variants) names.push_back(v.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail_usage("experiment", e.file.string(), ": ", key, " '", name, "' is not among the variants",
             did_you_mean(name, names));
}

template <class T>
void check_distinct(const std::vector<T>& values, const char* key, T least) {
  check_usage(!values.empty(), "experiment", key, " must not be empty");
  for (const T& v : values) check_usage(v >= least, "experiment", key, " must be at least ", least, ", got ", v);
  check_usage(std::set<T>(values.begin(), values.end()).size() == values.size(), "experiment", key, " repeats a value");
}

}  // namespace

Path Experiment::recipe_of(const VariantConfig& variant) const {
  const Path name = variant.recipe.empty() ? recipe : variant.recipe;
  return name.is_absolute() ? name : (file.parent_path() / name).lexically_normal();
}

Experiment parse_experiment(std::string_view text, const Path& file) {
  const Node root = parse_yaml(text, file.string());
  check_usage(root.is_map(), "experiment", file.string(),
              ": must hold recipe, baseline, variants, not a list or plain text");
  check_kind(root, file.string(), FileKind::experiment);
  File read;
  read_fields(root, "", [&](Fields& f) { read.fields(f); });
  Experiment e = std::move(read.e);
  e.file = file;
  e.name = file.stem().string();
  e.text = text;
  e.set = overrides_of(read.set, "set");
  read_variants(read.variants, e);
  check_known_variant(e, "baseline", e.baseline);
  if (e.peop_baseline.empty()) {
    e.peop_baseline = e.baseline;
    for (const VariantConfig& v : e.variants)
      if (v.name == "sha") e.peop_baseline = "sha";
  }
  check_known_variant(e, "peop_baseline", e.peop_baseline);
  const Node* seeds = root.find("seeds");
  check_usage(!seeds || seeds->is_list(), "experiment", file.string(),
              ": seeds must be a list, like [1, 2, 3] for three trainings of each variant");
  check_distinct<int64_t>(e.seeds, "seeds", 0);
  check_distinct<int64_t>(e.measure.prompt_lengths, "measure.prompt_lengths", 1);
  check_distinct<int64_t>(e.measure.batch_sizes, "measure.batch_sizes", 1);
  std::sort(e.measure.prompt_lengths.begin(), e.measure.prompt_lengths.end());
  std::sort(e.measure.batch_sizes.begin(), e.measure.batch_sizes.end());
  const BudgetConfig& b = e.budget;
  check_usage(b.solve.empty() || b.match != "none", "experiment",
              "budget.solve needs something to match; set "
              "budget.match");
  check_usage(b.solve.empty() || (b.match != "tokens"), "experiment",
              "budget.match tokens is met by every width; match parameters, flops or time to solve for ", b.solve);
  return e;
}

Experiment read_experiment(const Path& file) {
  check_usage(std::filesystem::is_regular_file(file), "experiment", "'", file.string(),
              "' is not a file; give an experiment such as recipes/experiments/quick.yaml");
  return parse_experiment(read_file(file, uint64_t(1) << 22), file);
}

std::vector<FieldDoc> describe_experiment() {
  File file;
  return describe_fields([&](Fields& f) { file.fields(f); });
}

}  // namespace lithe::compare
