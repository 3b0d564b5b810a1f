#include "lithe/compare/finetune.h"

#include <iostream>
#include <set>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/launcher_options.h"

namespace lithe {
namespace {

struct FinetuneOptions {
  std::vector<std::string> models, tasks, set;
  std::vector<int64_t> seeds{1};
  std::string out, only;
  int64_t folds = 0;
  bool scratch = false, json = false;
  compare::Launcher launcher;
};

int run_finetune(const FinetuneOptions& o) {
  check_launcher("finetune", o.launcher, o.only);
  check_usage(o.only.empty() || !o.json, "finetune", "--only trains one run; leave --json out");
  catch_stop_signals();
  compare::FinetuneRequest request{
      .seeds = o.seeds, .set = o.set, .folds = o.folds, .out = o.out, .launcher = o.launcher, .only = o.only};
  for (const std::string& text : o.models) {
    const size_t at = text.find('=');
    const Path directory = at == std::string::npos ? text : text.substr(at + 1);
    check_usage(std::filesystem::exists(directory / "config.json"), "finetune", "'", directory.string(),
                "' has no config.json; give NAME=DIR, or the --out directory of a training run");
    const Path clean = directory.filename().empty() ? directory.parent_path() : directory;
    request.models.push_back({at == std::string::npos ? clean.filename().string() : text.substr(0, at), directory});
  }
  check_usage(
      !o.scratch || !o.models.empty(), "finetune",
      "--scratch trains the models anew, and none is named; without models the recipes are trained as they stand");
  if (o.models.empty()) request.models.push_back({.name = "recipe"});
  if (o.scratch)
    for (const size_t count = request.models.size(); request.models.size() < 2 * count;) {
      compare::PretrainedModel fresh = request.models[request.models.size() - count];
      fresh.name += "-scratch";
      fresh.fresh = true;
      request.models.push_back(fresh);
    }
  std::set<std::string> names, files;
  for (const compare::PretrainedModel& m : request.models) {
    check_usage(!m.name.empty() && m.name[0] != '.' && m.name.find('/') == std::string::npos, "finetune",
                "a model's name becomes a directory in --out: it must not begin with a dot or hold a slash, got '",
                m.name, "'; write NAME=DIR");
    check_usage(names.insert(m.name).second, "finetune", "two models are named '", m.name,
                "'; give them names: NAME=DIR");
  }
  for (const std::string& task : o.tasks) {
    request.tasks.push_back(task);
    check_usage(files.insert(Path(task).stem().string()).second, "finetune", "two tasks are named '",
                Path(task).stem().string(), "'; a task has the name of its file");
  }
  const compare::Finetuning result = compare::finetune(request);
  if (!o.only.empty() && result.complete) {
    std::cout << o.only << " done\n";
    return 0;
  }
  if (o.only.empty()) {
    std::cout << (o.json ? compare::to_json_text(result) : compare::to_markdown(result));
    if (!o.json) std::cout << "\nreport " << o.out << "/finetuning.html, also .md and .json\n";
  }
  for (const std::string& warning : compare::warnings(result)) log_warning(warning);
  if (!stop_signal()) return 0;
  log_info("stopped by signal ", stop_signal(), " and saved; the same command continues");
  return 128 + stop_signal();
}

}  // namespace

Command add_finetune(CommandLine& app) {
  auto o = std::make_shared<FinetuneOptions>();
  app.add_option(
      "models", o->models,
      "pre-trained runs, NAME=DIR or DIR; the first is the base of all ratios. None: the tasks' recipes are trained as "
      "they stand");
  app.add_option("--tasks", o->tasks, "recipes with a section task, such as recipes/tasks/*.yaml").required();
  app.add_option("--out", o->out, "directory of the runs and the tables")
      .output({.kind = OutputRule::Kind::kept_directory, .own = {"runs", "timing.json", "finetuning.*", ".lock"}})
      .required();
  app.add_overwrite("start over: delete the tables in --out with their runs");
  app.add_option("--seeds", o->seeds, "train with each of these seeds; default 1").delimiter(',');
  app.add_option("--folds", o->folds,
                 "cross-validation: the training examples are cut into so many folds, each the test part in turn; for "
                 "tasks without a test part");
  app.add_flag("--scratch", o->scratch, "also train each model from scratch");
  app.add_option("--set", o->set, "override a key of every task's recipe: train.learning_rate=3e-4 (repeatable)")
      .repeatable();
  add_launcher_options(app, o->launcher);
  app.add_option("--only", o->only,
                 "train only the run MODEL/TASK/SEED or MODEL/TASK/SEED/FOLD, for job arrays; the command without "
                 "--only later uses its result");
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe finetune runs/bert runs/hashformer --tasks recipes/tasks/sst2.yaml recipes/tasks/rte.yaml "
      "--seeds 1,2,3 --scratch --out runs/tasks\n         lithe finetune --tasks mine.yaml --folds 10 --out "
      "runs/mine\nFinished runs are kept: repeat the command to continue.");
  return [o] { return run_finetune(*o); };
}

}  // namespace lithe
