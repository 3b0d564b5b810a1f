#include "lithe/compare/compare.h"

#include <cmath>
#include <cstdio>
#include <iostream>

#include "lithe/base/files.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/cli/command.h"
#include "lithe/cli/launcher_options.h"
#include "lithe/compress/receipt.h"

namespace lithe {
namespace {

struct CompareOptions {
  std::vector<std::string> experiments;  // one file, or directories with receipts
  std::string out;
  bool json = false, plan = false, keys = false, threads = false;
  std::string only;
  compare::Launcher launcher;
};

void print_plan(const compare::Comparison& c) {
  std::printf("%-20s %14s %14s %10s %14s %14s  %s\n", "variant", "parameters", "in mixers", "steps", "step FLOPs",
              "peak memory", "budget");
  for (const auto& r : c.variants) {
    const auto& v = r.variant;
    std::string budget = v.share.key.empty() ? "" : cat(v.share.key, " ", v.share.from, " -> ", v.share.to);
    std::printf("%-20s %14lld %14lld %10lld %14.4g %14s  %s\n", v.name.c_str(),
                static_cast<long long>(v.plan.parameters), static_cast<long long>(r.mixer_parameters),
                static_cast<long long>(v.steps), v.plan.step.flops, format_bytes(double(v.plan.memory.peak)).c_str(),
                budget.c_str());
  }
}

void print(const compare::Comparison& c, const std::string& out) {
  std::printf("%-20s %10s %10s %20s %8s %8s %14s\n", "variant", "loss", "+-",
              compare::score_name(c.experiment.score).c_str(), "PRR %", "PEoP", "parameters");
  for (const auto& r : c.variants) {
    const auto shown = [](double value, const char* pattern) {
      char text[32];
      std::snprintf(text, sizeof text, pattern, value);
      return std::isfinite(value) ? std::string(text) : std::string("-");
    };
    std::printf("%-20s %10s %10s %20s %8s %8s %14lld%s\n", r.variant.name.c_str(), shown(r.loss, "%.4f").c_str(),
                r.finished() > 1 ? shown(r.loss_deviation, "%.4f").c_str() : "-", shown(r.score, "%.3f").c_str(),
                shown(r.prr, "%.1f").c_str(), shown(c.peop_of(r), "%.2f").c_str(),
                static_cast<long long>(r.variant.plan.parameters), r.diverged() ? "  diverged" : "");
  }
  std::printf("\n");
  for (const std::string& sentence : c.sentences) std::printf("- %s\n", sentence.c_str());
  std::printf("\nreport %s/comparison.html, also .md and .json\n", out.c_str());
}

int print_keys() {
  for (const FieldDoc& doc : compare::describe_experiment())
    std::printf("%-24s %s%s%s\n", doc.path.c_str(), doc.help.c_str(),
                doc.rule.empty() ? "" : (" (" + doc.rule + ")").c_str(),
                doc.default_value.empty() ? "" : (", default " + doc.default_value).c_str());
  return 0;
}

// Directories with receipts, beside each other.
int compare_receipts(const CompareOptions& o) {
  check_usage(!o.plan, "compare", "--plan is for experiment files; a receipt describes a finished step");
  std::vector<Json> receipts;
  for (const std::string& directory : o.experiments) receipts.push_back(read_receipt(directory));
  Json all = Json::array();
  for (size_t i = 0; i < receipts.size(); ++i)
    all.push_back({{"directory", o.experiments[i]}, {"steps", steps_of(receipts[i])}});
  if (!o.out.empty()) {
    make_directory(o.out);
    write_file(Path(o.out) / "receipts.json", dump(all, 2) + "\n");
    write_file(Path(o.out) / "receipts.html", receipts_page(o.experiments, receipts));
  }
  if (o.json) {
    std::cout << dump(all, 2) << "\n";
    return 0;
  }
  std::printf("%-32s %12s %14s %14s %10s %10s\n", "model", "parameters", "bytes on disk", "peak memory", "tokens/s",
              "loss");
  const auto number = [](const Json& side, const char* key, const char* part, const char* pattern) {
    char text[32] = "-";
    if (side.contains(key))
      std::snprintf(text, sizeof text, pattern, double(side[key].is_object() ? side[key][part] : side[key]));
    return std::string(text);
  };
  const auto line = [&](const std::string& name, const Json& side) {
    std::printf("%-32s %12s %14s %14s %10s %10s\n", name.c_str(), number(side, "parameters", "", "%.0f").c_str(),
                number(side, "bytes_on_disk", "", "%.0f").c_str(),
                number(side, "peak_memory_bytes", "", "%.0f").c_str(),
                number(side, "decode_tokens_per_second", "median", "%.4g").c_str(),
                number(side, "loss", "mean", "%.4f").c_str());
  };
  for (size_t i = 0; i < receipts.size(); ++i) {
    const std::vector<Json> steps = steps_of(receipts[i]);
    std::printf("%s\n", o.experiments[i].c_str());
    line("  before", steps.front()["before"]);
    for (const Json& step : steps) line("  " + std::string(step["operation"]), step["after"]);
  }
  if (!o.out.empty()) std::printf("\nreport %s/receipts.html, also .json\n", o.out.c_str());
  return 0;
}

int run_compare(const CompareOptions& o) {
  if (o.keys) return print_keys();
  if (!o.experiments.empty() && std::filesystem::is_directory(o.experiments.front())) return compare_receipts(o);
  check_usage(o.experiments.size() < 2, "compare", "'", o.experiments.size() > 1 ? o.experiments[1] : "",
              "': give one experiment file, or directories with receipts");
  check_usage(!o.experiments.empty(), "compare", "name an experiment file, such as recipes/experiments/quick.yaml");
  check_usage(o.plan || !o.out.empty(), "compare", "give --out, the directory of the comparison");
  catch_stop_signals();
  const std::string& experiment = o.experiments.front();
  check_launcher("compare", o.launcher, o.only);
  check_usage(o.launcher.alone() || !o.plan, "compare", "--plan trains nothing; leave -j and --launcher out");
  check_usage(o.only.empty() || (!o.plan && !o.json), "compare", "--only trains one run; leave --plan and --json out");
  const compare::Comparison c = compare::compare(
      {.experiment = experiment, .out = o.out, .plan_only = o.plan, .launcher = o.launcher, .only = o.only});
  if (!o.only.empty() && c.status == compare::Progress::complete) {
    std::printf("%s done\n", o.only.c_str());
    return 0;
  }
  if (o.json)
    std::cout << compare::to_json_text(c);
  else if (o.plan)
    print_plan(c);
  else
    print(c, o.out);
  if (c.status == compare::Progress::complete) return 0;
  log_info("stopped by signal ", stop_signal(), " and saved; continue with: lithe compare ", experiment, " --out ",
           o.out, o.only.empty() ? "" : cat(" --only ", o.only), launcher_words(o.launcher),
           o.threads ? cat(" --threads ", threads()) : std::string());
  return 128 + stop_signal();
}

}  // namespace

Command add_compare(CommandLine& app) {
  auto o = std::make_shared<CompareOptions>();
  app.add_option("experiment", o->experiments,
                 "experiment file (YAML): variants of a recipe, seeds, budget; or directories that have a "
                 "receipt.json: their steps are shown in one table");
  app.add_option("--out", o->out, "directory of the comparison; repeat the command to continue")
      .output({.kind = OutputRule::Kind::kept_directory,
               .own = {"runs", "experiment.yaml", "budget.json", "rounds.json", "comparison.*", "receipts.*", ".lock"},
               .of_others = {"search.*", "compare.yaml", "latency", "supernet.safetensors"}});
  app.add_overwrite("start over: delete the comparison in --out with its runs");
  app.add_flag("--plan", o->plan, "check the experiment and print what each variant will cost; train nothing");
  app.add_flag("--keys", o->keys, "print the keys of an experiment file");
  add_launcher_options(app, o->launcher);
  app.add_option("--only", o->only,
                 "train only the run VARIANT/SEED, for job arrays; the command without --only later uses its result");
  app.add_flag("--json", o->json, "print the result as JSON");
  const Option threads = add_threads_option(app);
  app.footer(
      "Example: lithe compare recipes/experiments/quick.yaml --out runs/quick\nThe command trains every variant with "
      "every seed on the same data in the same order, measures quality and speed,\nand says which differences exceed "
      "the noise. It refuses (exit 2) variants that differ in keys which they do not\ndeclare.");
  return [o, threads] {
    o->threads = threads.given();
    return run_compare(*o);
  };
}

}  // namespace lithe
