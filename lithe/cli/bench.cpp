#include "lithe/bench/bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/bench/tables.h"
#include "lithe/cli/command.h"
#include "lithe/model/model.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

struct BenchOptions {
  std::vector<std::string> models, set, only;
  std::string against, out;
  double tolerance = 0.05;
  bool json = false, force = false;
  bench::Options bench;
};

bench::Subject read_subject(const Path& path, const std::vector<std::string>& overrides) {
  const bool is_run = std::filesystem::is_directory(path);
  check_usage(!is_run || overrides.empty(), "bench", "--set changes recipes, and '", path.string(),
              "' is the directory of a run, whose model is what it is; leave out --set or give the recipe");
  Recipe recipe = is_run ? recipe_of_run(path) : load_recipe(path, overrides);
  if (is_run)
    recipe.model = load_config(path / "config.json");
  else
    complete_without_data(recipe, "bench", recipe.data.sequence_length);
  return {.model = recipe.model,
          .train = recipe.train,
          .sequence_length = recipe.data.sequence_length,
          .code = recipe.data.tokenizer.token_code(),
          .run = is_run ? path : Path()};
}

// The short name of each file or directory, or its path where two are alike, or that with a number.
void name_subjects(std::vector<bench::Subject>& subjects, const std::vector<std::string>& paths) {
  const auto short_name = [](const std::string& path) {
    const Path p = Path(path).lexically_normal();
    return (p.has_filename() ? p : p.parent_path()).stem().string();
  };
  const auto count = [&](auto&& name, const std::string& wanted) {
    return std::count_if(paths.begin(), paths.end(), [&](const std::string& path) { return name(path) == wanted; });
  };
  for (size_t i = 0; i < paths.size(); ++i) {
    std::string& name = subjects[i].name = short_name(paths[i]);
    if (count(short_name, name) == 1) continue;
    name = paths[i];
    const auto before = std::count(paths.begin(), paths.begin() + int64_t(i), paths[i]);
    if (before) name += cat(" #", before + 1);
  }
}

void check_options(const BenchOptions& o) {
  for (const std::string& section : o.only)
    check_usage(std::find(bench::kSections.begin(), bench::kSections.end(), section) != bench::kSections.end(), "bench",
                "--only knows ", join(bench::kSections), ", not '", section, "'");
  const bool models =
      std::any_of(o.only.begin(), o.only.end(), [](const std::string& s) { return s != "ceilings" && s != "kernels"; });
  check_usage(!models || !o.models.empty(), "bench",
              "--only train, prefill, decode and encode measure a model: give the directory of a run, or a recipe");
  check_usage(models || o.only.empty() || o.models.empty(), "bench", "--only ", join(o.only),
              " measures no model; leave '", o.models.empty() ? "" : o.models[0], "' out, or name train, prefill, ",
              "decode or encode, too");
  check_usage(o.set.empty() || !o.models.empty(), "bench", "--set changes recipes: give one");
  check_usage(std::isfinite(o.tolerance) && o.tolerance >= 0 && o.tolerance < 10, "bench",
              "--tolerance must be a share from 0 on, 0.05 for 5 %, got ", o.tolerance);
  check_usage(std::isfinite(o.bench.seconds) && o.bench.seconds > 0 && o.bench.seconds <= 3600, "bench",
              "--seconds must be above 0 and at most 3600, got ", o.bench.seconds);
}

void check_comparable(const bench::Setting& now, const bench::Setting& before, bool force) {
  const std::vector<std::string> reasons = bench::obstacles(now, before);
  std::string all;
  for (const std::string& reason : reasons) all += (all.empty() ? "" : "; ") + reason;
  check_usage(reasons.empty() || force, "bench", "the earlier run says little about this one: ", all,
              " (--force compares all the same)");
  if (!reasons.empty()) log_warning("compares all the same: ", all);
}

Json json_of(const bench::Ratio& r) {
  Json json = {{"value", r.value}};
  if (std::isfinite(r.high)) json.update(Json({{"low", r.low}, {"high", r.high}}));
  return json;
}

std::string json_text(const bench::Result& result, const bench::Changes* changes) {
  Json json = parse_json(bench::to_json_text(result), "bench");
  for (const bench::VariantDifference& d : bench::variant_differences(result))
    json["differences"].push_back({{"group", result.measurements[d.at].group},
                                   {"name", result.measurements[d.at].name},
                                   {"variant", result.measurements[d.at].variant},
                                   {"first", result.measurements[d.first].variant},
                                   {"speed_ratio", json_of(d.ratio)},
                                   {"verdict", name_of(d.verdict)}});
  if (changes) {
    json["changes"] = Json::array();
    for (const bench::Change& c : changes->all)
      json["changes"].push_back({{"measurement", result.measurements[c.now].label()},
                                 {"by_the_clock", json_of(c.timed)},
                                 {"by_the_share", json_of(c.share)},
                                 {"fastest_round", c.fastest},
                                 {"verdict", name_of(c.verdict)}});
  }
  return dump(json, 2) + "\n";
}

int run_bench(BenchOptions o) {
  check_options(o);
  o.bench.only = {o.only.begin(), o.only.end()};
  std::vector<bench::Subject> subjects;
  for (const std::string& path : o.models) subjects.push_back(read_subject(path, o.set));
  name_subjects(subjects, o.models);
  // Whatever can be refused is refused before anything is measured.
  std::optional<bench::Result> before;
  if (!o.against.empty()) {
    before = bench::read_result(o.against);
    check_comparable(bench::empty_result(bench::precision_text(o.bench)).setting, before->setting, o.force);
  }
  catch_stop_signals();
  if (!o.out.empty()) make_directory(o.out);
  const bench::Result result = bench::run(subjects, o.bench);
  check(!result.complete || !result.measurements.empty() || !result.ceilings.empty(), "bench",
        "nothing could be measured: ", join(result.skipped));
  std::optional<bench::Changes> changes;
  if (before && result.complete) changes = bench::changes(result, *before, o.tolerance);
  if (o.json)
    std::cout << json_text(result, changes ? &*changes : nullptr);
  else
    std::cout << bench::tables(result);
  if (changes && !o.json) std::cout << bench::tables(*changes, result, *before, o.tolerance);
  if (!o.out.empty()) {
    write_file(Path(o.out) / "bench.json", bench::to_json_text(result));
    write_file(Path(o.out) / "bench.html",
               bench::page(result, changes ? &*changes : nullptr, before ? &*before : nullptr, o.tolerance));
    log_info("wrote ", o.out, "/bench.html and ", o.out, "/bench.json");
  }
  if (!result.complete) {
    log_warning("stopped by signal ", stop_signal(), ": these are the measurements so far",
                before ? ", and nothing was compared" : "");
    return 128 + stop_signal();
  }
  if (!changes) return 0;
  check_usage(!changes->all.empty(), "bench", "this run and '", o.against, "' have no measurement in common");
  const int64_t slower = changes->count(bench::Verdict::slower);
  check(!slower, "bench", bench::sentence(*changes, o.tolerance));
  return 0;
}

}  // namespace

Command add_bench(CommandLine& app) {
  auto o = std::make_shared<BenchOptions>();
  app.add_option("models", o->models, "runs or recipes to measure, several against the first; none: the kernels");
  app.add_option("--only", o->only, "what to measure: " + join(bench::kSections)).delimiter(',');
  app.add_option("--set", o->set, "override a key of the recipes (repeatable)").repeatable();
  app.add_option("--precision", o->bench.precision,
                 "f32 or bf16; default: kernels in both, models in the precision of their recipes")
      .one_of({"f32", "bf16"});
  app.add_option("--batch", o->bench.batches, "texts in a batch when decoding and encoding; default 1,8")
      .delimiter(',')
      .between(1, 65536);
  app.add_option("--length", o->bench.length,
                 "tokens of a prompt and of an encoded text; default: the smallest sequence_length of the recipes")
      .between(1, 1 << 24);
  app.add_option("--rounds", o->bench.rounds, "rounds; in each everything is measured once; default 7")
      .between(1, 100000);
  app.add_option("--seconds", o->bench.seconds, "time of each measurement, at least one run; default 0.05");
  app.add_option("--out", o->out, "directory for bench.json and bench.html, the roofline page")
      .output({.kind = OutputRule::Kind::shared, .own = {"bench.json", "bench.html"}});
  const Option against =
      app.add_option("--against", o->against,
                     "bench.json of an earlier run: exit 1 when something is slower beyond noise and --tolerance");
  app.add_option("--tolerance", o->tolerance, "with --against: share of speed that may be lost; default 0.05")
      .needs(against);
  app.add_flag("--force", o->force, "with --against: compare even if machine, threads or precision differ")
      .needs(against);
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe bench recipes/quickstart.yaml --out runs/bench\nWithout a model: the limits of this machine, and "
      "the share of them that each kernel reaches. Stop other programs first.");
  return [o] { return run_bench(*o); };
}

}  // namespace lithe
