#include "lithe/cli/recipe.h"

#include "lithe/base/error.h"

namespace lithe {

void Recipe::fields(Fields& f) {
  f.section("model", model, "the parts and sizes of the model");
  f.section("data", data, "what to learn from");
  f.section("train", train, "how to learn");
  f.section("eval", eval, "how `lithe eval` measures");
  f.section("generate", generate, "how `lithe generate` and samples during training choose tokens");
}

namespace {

const char* const kSections[] = {"model", "data", "train", "eval", "generate"};

// A key at the wrong place is common (learning_rate at the top level): say where it belongs.
void check_places(const Node& root) {
  Recipe recipe;
  const auto docs = describe_fields([&](Fields& f) { recipe.fields(f); });
  for (const auto& [key, value] : root.entries()) {
    for (const char* section : kSections)
      if (key == section) goto next;
    for (const FieldDoc& doc : docs)
      if (doc.path.size() > key.size() && doc.path.ends_with("." + key))
        fail_usage("recipe", to_string(value.mark()), ": '", key, "' belongs in section '", doc.path.substr(0, doc.path.size() - key.size() - 1), "', not at the top level");
  next:;
  }
}

}  // namespace

Recipe load_recipe(const Path& file, const std::vector<std::string>& overrides) {
  Node root = parse_yaml(read_file(file, uint64_t(1) << 24), file.string());
  if (root.is_null()) root = Node::map(Mark{file.string(), 1, 1});
  check_usage(root.is_map(), "recipe", file.string(), ": must hold sections model, data, train, not ", root.is_list() ? "a list" : "plain text");
  for (const std::string& assignment : overrides) apply_override(root, assignment);
  check_places(root);
  Recipe recipe;
  read_fields(root, "", [&](Fields& f) { recipe.fields(f); });
  return recipe;
}

Node resolved(Recipe recipe) {
  return write_fields([&](Fields& f) { recipe.fields(f); });
}

Recipe recipe_of_run(const Path& run) {
  const Path file = run / "resolved_recipe.yaml";
  check_usage(std::filesystem::exists(file), "load", "'", run.string(), "' has no resolved_recipe.yaml; give the --out directory of a training run");
  return load_recipe(file, {});
}

}  // namespace lithe
