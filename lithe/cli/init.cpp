#include <iostream>
#include <memory>

#include "lithe/base/json.h"
#include "lithe/cli/command.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/trainer.h"

namespace lithe {
namespace {

struct InitOptions {
  std::string recipe, out;
  std::vector<std::string> set;
  bool overwrite = false, json = false;
};

int run_init(const InitOptions& o) {
  TrainRun run{.out = o.out, .recipe = load_recipe(o.recipe, o.set), .overwrite = o.overwrite, .initialise = true};
  const TrainResult r = train(std::move(run));
  if (o.json)
    std::cout << dump(Json({{"status", r.status}, {"steps", r.steps}, {"out", o.out}}), 2) << "\n";
  else
    std::cout << "initial weights in " << o.out
              << "/model.safetensors; lithe train with the same recipe and --set, --out " << o.out
              << " --resume trains them\n";
  return 0;
}

}  // namespace

Command add_init(CommandLine& app) {
  auto o = std::make_shared<InitOptions>();
  app.add_option("recipe", o->recipe, "recipe file (YAML); its texts are read, for the tokenizer and the vocabulary")
      .required();
  app.add_option("--out", o->out, "directory of the run").required();
  app.add_option("--set", o->set, "override a key of the recipe (repeatable)").repeatable();
  app.add_flag("--overwrite", o->overwrite, "start over where --out already holds a run or other files");
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe init recipes/quickstart.yaml --out runs/start\nThe run can be evaluated and inspected as "
      "it is, and trained with --resume.");
  return [o] { return run_init(*o); };
}

}  // namespace lithe
