#include <iostream>
#include <memory>

#include "lithe/base/json.h"
#include "lithe/base/output_directory.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/recipe/recipe.h"
#include "lithe/report/run_report.h"
#include "lithe/train/resume.h"
#include "lithe/train/trainer.h"

namespace lithe {
namespace {

struct InitOptions {
  std::string recipe, out;
  std::vector<std::string> set;
  bool overwrite = false, json = false;
};

// In a directory of its own, which takes the place of --out when it is whole.
TrainResult initialise(const InitOptions& o) {
  namespace fs = std::filesystem;
  const Path out = o.out;
  check_usage(!fs::exists(out) || fs::is_directory(out), "init", "'", o.out, "' is a file; give --out a directory");
  check_usage(o.overwrite || !fs::exists(out / "resolved_recipe.yaml"), "init", "'", o.out,
              "' already holds a run; give --overwrite to begin it anew, or another --out");
  Recipe recipe = load_recipe(o.recipe, o.set);
  std::optional<DirectoryLock> lock;
  if (fs::exists(out)) {
    check_only_run(out, "init");
    lock.emplace(out);
  }
  const MadeDirectory parents(fs::absolute(out / "").lexically_normal().parent_path().parent_path());
  Temporary temporary(out, Temporary::Kind::directory);
  const TrainResult result = train({.out = temporary.name(), .recipe = std::move(recipe), .initialise = true});
  temporary.exchange();
  write_run_report(out);  // which has its name for a title
  return result;
}

int run_init(const InitOptions& o) {
  catch_stop_signals();
  const TrainResult r = initialise(o);
  if (o.json)
    std::cout << dump(Json({{"status", name_of(r.status)}, {"steps", r.steps}, {"out", o.out}}), 2) << "\n";
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
  app.add_option("--out", o->out, "directory of the run").output({.kind = OutputRule::Kind::of_command}).required();
  app.add_option("--set", o->set, "override a key of the recipe (repeatable)").repeatable();
  app.add_flag("--overwrite", o->overwrite, "replace the run in --out, and nothing else");
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe init recipes/quickstart.yaml --out runs/start\nThe run can be evaluated and inspected as "
      "it is, and trained with --resume.");
  return [o] { return run_init(*o); };
}

}  // namespace lithe
