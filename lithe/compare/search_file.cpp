#include <set>

#include "lithe/base/error.h"
#include "lithe/compare/search.h"
#include "lithe/recipe/file_kind.h"

namespace lithe::compare {

void SearchBudget::fields(Fields& f) {
  f("parameters", parameters, "trainable numbers at most; 0: no limit", at_least(0));
  f("flops", flops, "forward FLOPs a token at most; 0: no limit", at_least(0));
  f("memory", memory, "bytes of training at most, by the plan; 0: no limit", at_least(0));
  f("latency", latency, "milliseconds a decoded token at most, measured behind prompt_length tokens; 0: no limit",
    at_least(0));
  f("weight", weight, "lambda: what an excess of 100 % of a limit adds to the loss; 0: limits do not count",
    at_least(0));
  f("prompt_length", prompt_length, "tokens before those that latency times", at_least(1));
}

void SupernetConfig::fields(Fields& f) {
  f("steps", steps,
    "training steps of one set of weights that all candidates share; candidates are then chosen by what their slices "
    "score, and the best of them are trained; 0: no such super-network",
    at_least(0));
  f("candidates", candidates, "points of the grid that are scored by it", at_least(1));
}

namespace {

struct File {
  SearchFile s;
  Node set, choices;
  int64_t seed = 1;

  void fields(Fields& f) {
    f("recipe", s.recipe, "the recipe whose keys are chosen, relative to this file", {.required = true});
    f.free("set", set, "overrides for all candidates: dotted keys of the recipe and their values");
    f.free("choices", choices, "dotted keys of the recipe, and a list of values for each");
    f("method", s.how.method, "how candidates are found", one_of({"evolution", "random", "exhaustive"}));
    f("candidates", s.how.evaluations, "candidates that are trained, at most", at_least(1));
    f("population", s.how.population, "evolution: the last candidates from which parents are taken", at_least(1));
    f("tournament", s.how.tournament, "evolution: members of the population of which the best is the parent",
      at_least(1));
    f("seed", seed, "of the search", at_least(0));
    f("training_seed", s.training_seed, "of weights and data order, the same for all candidates", at_least(0));
    f("train_beyond_budget", s.train_beyond, "also train candidates beyond a limit, as soft limits want it");
    f.section("budget", s.budget, "limits, and what an excess costs");
    f.section("supernet", s.supernet, "weights that all candidates share");
  }
};

std::string one_line(const Node& node) {
  if (node.is_map() || node.is_list()) {
    std::string out;
    const auto put = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
    for (const auto& [key, value] : node.entries()) put(key + ": " + one_line(value));
    for (const Node& item : node.items()) put(one_line(item));
    return node.is_map() ? "{" + out + "}" : "[" + out + "]";
  }
  std::string value = to_yaml(node);
  while (!value.empty() && value.back() == '\n') value.pop_back();
  return value;
}

}  // namespace

SearchFile read_search(const Path& file) {
  check_usage(std::filesystem::is_regular_file(file), "search", "'", file.string(),
              "' is not a file; give one such as recipes/experiments/search.yaml");
  const std::string text = read_file(file, uint64_t(1) << 22);
  const Node root = parse_yaml(text, file.string());
  check_usage(root.is_map(), "search", file.string(), ": must hold recipe and choices, not a list or plain text");
  check_kind(root, file.string(), FileKind::search);
  File read;
  read_fields(root, "", [&](Fields& f) { read.fields(f); });
  SearchFile s = std::move(read.s);
  s.file = file;
  s.text = text;
  s.how.seed = uint64_t(read.seed);
  for (const char* key : {"population", "tournament"})
    check_usage(!root.find(key) || s.how.method == "evolution", "search", file.string(), ": ", key,
                " is of method evolution, not of ", s.how.method, "; leave it out");
  for (const auto& [key, value] : read.set.entries()) {
    check_usage(key.find('.') != std::string::npos, "search", to_string(value.mark()), ": '", key,
                "' in set must be a dotted key like model.", key);
    s.set.emplace_back(key, value);
  }
  check_usage(
      read.choices.is_map() && !read.choices.entries().empty(), "search", file.string(),
      ": choices must name dotted keys, each with a list of values, like model.ffn.intermediate_size: [128, 256]");
  for (const auto& [key, values] : read.choices.entries()) {
    check_usage(key.starts_with("model."), "search", to_string(values.mark()), ": '", key,
                "' is no key of section model, like model.ffn.intermediate_size; other keys go under set");
    check_usage(values.is_list() && !values.items().empty(), "search", to_string(values.mark()), ": choices.", key,
                " must list its values");
    std::vector<std::string> texts;
    for (const Node& value : values.items()) texts.push_back(one_line(value));
    check_usage(std::set<std::string>(texts.begin(), texts.end()).size() == texts.size(), "search",
                to_string(values.mark()), ": choices.", key, " repeats a value");
    s.choices.emplace_back(key, std::move(texts));
  }
  return s;
}

std::vector<FieldDoc> describe_search() {
  File file;
  return describe_fields([&](Fields& f) { file.fields(f); });
}

}  // namespace lithe::compare
