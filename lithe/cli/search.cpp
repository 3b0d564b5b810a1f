#include "lithe/compare/search.h"

#include <cstdio>
#include <iostream>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/cli/command.h"
#include "lithe/cli/launcher_options.h"

namespace lithe {
namespace {

struct SearchOptions {
  std::string file, out, only;
  bool json = false, keys = false, threads = false;
  compare::Launcher launcher;
};

int print_keys() {
  for (const FieldDoc& doc : compare::describe_search())
    std::printf("%-24s %s%s%s\n", doc.path.c_str(), doc.help.c_str(),
                doc.rule.empty() ? "" : (" (" + doc.rule + ")").c_str(),
                doc.default_value.empty() ? "" : (", default " + doc.default_value).c_str());
  return 0;
}

void print(const compare::SearchResult& r, const std::string& out) {
  std::printf("%-16s %-10s %12s %12s %10s %10s  %s\n", "candidate", "became", "parameters", "FLOPs/token", "loss",
              "objective", "choices");
  for (const compare::Candidate& c : r.candidates) {
    std::string values;
    for (const std::string& value : c.values) values += (values.empty() ? "" : ", ") + value;
    const auto shown = [](double value) {
      char text[32];
      std::snprintf(text, sizeof text, "%.4f", value);
      return std::isfinite(value) ? std::string(text) : std::string("-");
    };
    std::printf("%-16s %-10s %12lld %12.4g %10s %10s  %s\n", c.name.c_str(), name_of(c.status),
                static_cast<long long>(c.parameters), c.flops,
                shown(c.status == compare::CandidateStatus::shared ? c.shared_loss : c.loss).c_str(),
                shown(c.objective).c_str(), values.c_str());
  }
  if (!r.best.empty()) {
    std::printf("\nbest %s:", r.best.c_str());
    for (const compare::Candidate& c : r.candidates)
      for (size_t i = 0; c.name == r.best && i < c.values.size(); ++i)
        std::printf(" %s=%s", r.search.choices[i].first.c_str(), c.values[i].c_str());
    std::printf("\n");
  } else if (r.status == compare::Progress::complete) {
    const auto refused = std::find_if(r.candidates.begin(), r.candidates.end(), [](const compare::Candidate& c) {
      return c.status == compare::CandidateStatus::refused;
    });
    std::printf("\nno candidate was trained to its end within the budget; allow more, or give smaller choices%s%s\n",
                refused == r.candidates.end() ? "" : cat("; ", refused->name, " cannot be built: ").c_str(),
                refused == r.candidates.end() ? "" : refused->message.c_str());
  }
  std::printf("\nreport %s/search.html, also .json\n", out.c_str());
}

int run_search(const SearchOptions& o) {
  if (o.keys) return print_keys();
  check_usage(!o.file.empty(), "search", "name a file of choices, such as recipes/experiments/search.yaml");
  check_usage(!o.out.empty(), "search", "give --out, the directory of the search");
  check_launcher("search", o.launcher, o.only);
  check_usage(o.only.empty() || !o.json, "search", "--only trains one candidate; leave --json out");
  catch_stop_signals();
  const compare::SearchResult r = compare::search(o.file, o.out, o.launcher, o.only);
  if (!o.only.empty() && r.status == compare::Progress::complete) {
    std::printf("%s done\n", o.only.c_str());
    return 0;
  }
  if (o.json)
    std::cout << compare::to_json_text(r);
  else if (o.only.empty())
    print(r, o.out);
  if (r.status == compare::Progress::complete) return 0;
  log_info("stopped by signal ", stop_signal(), " and saved; continue with: lithe search ", o.file, " --out ", o.out,
           o.only.empty() ? "" : cat(" --only ", o.only), launcher_words(o.launcher),
           o.threads ? cat(" --threads ", threads()) : std::string());
  return 128 + stop_signal();
}

}  // namespace

Command add_search(CommandLine& app) {
  auto o = std::make_shared<SearchOptions>();
  app.add_option("file", o->file, "file of the search (YAML): a recipe, choices, budgets");
  app.add_option("--out", o->out, "directory of the search; repeat the command to continue")
      .output({.kind = OutputRule::Kind::kept_directory,
               .own = {"runs", "latency", "supernet.safetensors", "search.*", "compare.yaml", ".lock"},
               .of_others = {"experiment.yaml", "budget.json", "rounds.json", "comparison.*"}});
  app.add_overwrite("start over: delete the search in --out with its runs");
  app.add_flag("--keys", o->keys, "the keys of such a file");
  app.add_flag("--json", o->json, "print the result as JSON");
  add_launcher_options(app, o->launcher);
  app.add_option(
      "--only", o->only,
      "train only this candidate, for example c-0-2, for job arrays; the command without --only later uses its result");
  const Option threads = add_threads_option(app);
  app.footer(
      "Example: lithe search recipes/experiments/search.yaml --out runs/search\nTrains candidates, each a run of its "
      "own, and says which is best under the budgets.\nThen: lithe compare runs/search/compare.yaml --out runs/search");
  return [o, threads] {
    o->threads = threads.given();
    return run_search(*o);
  };
}

}  // namespace lithe
