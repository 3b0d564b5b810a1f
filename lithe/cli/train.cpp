#include <cstdio>
#include <iostream>

#include "lithe/base/counted.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/cli/command.h"
#include "lithe/train/resume.h"
#include "lithe/train/run_log.h"
#include "lithe/train/trainer.h"

namespace lithe {
namespace {

struct TrainOptions {
  std::string recipe, out, budget, resume;
  std::vector<std::string> set;
  bool overwrite = false, fit = false, json = false, threads = false;
};

// Quoted for a shell where it must be.
std::string word(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:@%") ==
                                          std::string::npos;
  if (plain) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string resume_command(const TrainOptions& o) {
  std::string out = "lithe train " + word(o.recipe) + " --out " + word(o.out);
  for (const std::string& set : o.set) out += " --set " + word(set);
  if (!o.budget.empty()) out += " --memory-budget " + word(o.budget);
  if (o.fit) out += " --fit";
  if (o.threads) out += cat(" --threads ", threads());
  return out + " --resume";
}

void print(const TrainResult& r, const std::string& out) {
  std::printf("%s after %s, %s, %s\n", name_of(r.status), counted(r.steps, "step").c_str(),
              counted(r.tokens, "token").c_str(), format_duration(r.seconds).c_str());
  if (r.best_step >= 0) {
    std::printf("held-out loss %.4f", r.eval_loss);
    if (r.perplexity) std::printf(" (perplexity %.2f)", std::exp(r.eval_loss));
    for (const auto& [name, value] : r.metrics) std::printf("  %s %.4f", name.c_str(), value);
    if (r.best_by.empty() || r.best_by == "loss")
      std::printf(", best %.4f at step %lld\n", r.best_eval_loss, static_cast<long long>(r.best_step));
    else
      std::printf(", best %s %.4f at step %lld\n", r.best_by.c_str(), r.best_value,
                  static_cast<long long>(r.best_step));
  }
  std::printf("peak memory %s (planned %s)\n", format_bytes(double(r.measured.peak)).c_str(),
              format_bytes(double(r.planned.peak)).c_str());
  std::printf("weights %s/model.safetensors, report %s/report.html\n", out.c_str(), out.c_str());
}

int run_train(const TrainOptions& o) {
  catch_stop_signals();
  TrainRun run{.out = o.out, .recipe = load_recipe(o.recipe, o.set), .fit_memory = o.fit};
  check_usage(o.resume.empty() || o.resume == "true" || o.resume == "auto", "train",
              "--resume stands alone or with auto, not with '", o.resume, "'");
  run.resume = o.resume == "true" || (o.resume == "auto" && has_begun(run.out));
  run.extend = run.resume;
  run.overwrite = o.overwrite;
  if (!o.budget.empty()) run.memory_budget = parse_bytes(o.budget);
  check_usage(!o.fit || run.memory_budget, "train", "--fit needs --memory-budget");
  const TrainResult r = train(run);
  if (o.json)
    std::cout << dump(Json({{"status", name_of(r.status)},
                            {"steps", r.steps},
                            {"tokens", r.tokens},
                            {"final_loss", r.final_loss},
                            {"eval_loss", r.eval_loss},
                            {"best_eval_loss", r.best_eval_loss},
                            {"best_step", r.best_step},
                            {"best_by", r.best_by},
                            {"best_value", r.best_value},
                            {"seconds", r.seconds},
                            {"planned_peak_bytes", r.planned.peak},
                            {"measured_peak_bytes", r.measured.peak},
                            {"out", o.out}}),
                      2, Invalid::replaced)
              << "\n";
  else
    print(r, o.out);
  if (!r.signal) return 0;
  log_info("stopped by signal ", r.signal, " and saved; continue with: ", resume_command(o));
  return 128 + r.signal;
}

}  // namespace

Command add_train(CommandLine& app) {
  auto o = std::make_shared<TrainOptions>();
  app.add_option("recipe", o->recipe, "recipe file (YAML); the keys: lithe list --keys").required();
  app.add_option("--out", o->out, "directory of the run: weights, metrics, checkpoints, report")
      .output({.kind = OutputRule::Kind::of_command})
      .required();
  app.add_flag("--resume", o->resume,
               "continue the run in --out from its last checkpoint, bit for bit; --resume auto begins one if there is "
               "none. A finished run goes on only if --set train.max_steps gives it a later end");
  app.add_flag("--overwrite", o->overwrite,
               "start over where --out already holds a run or other files; without it such a directory is refused");
  app.add_option("--set", o->set, "override a key of the recipe: train.learning_rate=3e-4 (repeatable)").repeatable();
  app.add_option("--memory-budget", o->budget,
                 "refuse (exit 4) when the planned peak is above this, like 2GiB; default: what the machine or its "
                 "cgroup has left");
  app.add_flag("--fit", o->fit, "with --memory-budget: choose accumulation and recomputation so that it fits");
  app.add_flag("--json", o->json, "print the result as JSON");
  const Option threads = add_threads_option(app);
  app.footer("Example: lithe train recipes/quickstart.yaml --out runs/first --set train.max_steps=100");
  return [o, threads] {
    o->threads = threads.given();
    return run_train(*o);
  };
}

}  // namespace lithe
