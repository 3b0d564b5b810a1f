#include <cstdlib>

#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/cli/command.h"
#include "lithe/cli/train_report.h"
#include "lithe/parallel/job.h"

namespace lithe {
namespace {

struct TrainOptions {
  std::string recipe, out, budget, resume;
  std::vector<std::string> set;
  bool overwrite = false, fit = false, json = false, threads = false, requeue = false;
};

std::string resume_command(const TrainOptions& o) {
  std::string out = "lithe train " + shell_word(o.recipe) + " --out " + shell_word(o.out);
  for (const std::string& set : o.set) out += " --set " + shell_word(set);
  if (!o.budget.empty()) out += " --memory-budget " + shell_word(o.budget);
  if (o.fit) out += " --fit";
  if (o.threads) out += cat(" --threads ", threads());
  return out + " --resume";
}

// Slurm runs the job again, which resumes.
void requeue() {
  const std::string command = cat("scontrol requeue ", shell_word(std::getenv("SLURM_JOB_ID")));
  check(std::system(command.c_str()) == 0, "train", "the run is saved, and '", command, "' failed");
}

int run_train(const TrainOptions& o) {
  catch_stop_signals();
  join_job();
  TrainRun run{.out = o.out, .fit_memory = o.fit};
  together([&] {
    run.recipe = load_recipe(o.recipe, o.set);
    run.resume = resumes(o.resume, run.out);
    run.extend = run.resume;
    run.overwrite = o.overwrite;
    if (!o.budget.empty()) run.memory_budget = parse_bytes(o.budget, "train", "--memory-budget");
    check_usage(!o.fit || run.memory_budget, "train", "--fit needs --memory-budget");
    check_usage(!o.requeue || o.resume == "auto", "train",
                "--requeue runs the same command again; give --resume auto, so that it goes on");
    check_usage(!o.requeue || std::getenv("SLURM_JOB_ID"), "train",
                "--requeue asks Slurm to run the job again, and SLURM_JOB_ID is not set; leave it out");
  });
  const TrainResult result = train(run);
  if (!speaks_for_job()) return result.signal ? 128 + result.signal : 0;
  std::optional<TaskScore> task;
  if (result.status == RunStatus::finished) task = score_task(run.out, run.recipe);
  const int code = report_training(result, o.out, o.json, resume_command(o), task);
  if (o.requeue && result.signal) requeue();
  return code;
}

}  // namespace

Command add_train(CommandLine& app) {
  auto o = std::make_shared<TrainOptions>();
  app.add_option("recipe", o->recipe, "recipe file (YAML); lithe list --keys shows its keys").required();
  app.add_option("--out", o->out, "directory of the run: weights, metrics, checkpoints, report")
      .output({.kind = OutputRule::Kind::of_command})
      .required();
  app.add_flag("--resume", o->resume,
               "continue the run in --out from its last checkpoint, bit for bit; --resume auto begins a run if there "
               "is none. A finished run continues only if --set train.max_steps gives it a later end");
  app.add_flag(
      "--overwrite", o->overwrite,
      "start over if --out already holds a run or other files; without this option such a directory is refused");
  app.add_option("--set", o->set, "override a key of the recipe: train.learning_rate=3e-4 (repeatable)").repeatable();
  app.add_option("--memory-budget", o->budget,
                 "memory limit, for example 2GiB; a training whose planned peak is above it is refused (exit 4); "
                 "default: the free memory of the machine or its cgroup");
  app.add_flag(
      "--fit", o->fit,
      "with --memory-budget: choose gradient accumulation and recomputation so that the training fits the limit");
  app.add_flag("--requeue", o->requeue,
               "in a job of Slurm, with --resume auto: if a signal stops the run, save it and tell Slurm to run the "
               "job again (docs/clusters.md)");
  app.add_flag("--json", o->json, "print the result as JSON");
  const Option threads = add_threads_option(app);
  app.footer("Example: lithe train recipes/quickstart.yaml --out runs/first --set train.max_steps=100");
  return [o, threads] {
    o->threads = threads.given();
    return run_train(*o);
  };
}

}  // namespace lithe
