#include "lithe/compare/compare.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/counted.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/output_directory.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/compare/budget.h"
#include "lithe/compare/description.h"
#include "lithe/compare/rounds.h"
#include "lithe/report/format.h"
#include "lithe/train/growth.h"

namespace lithe::compare {
namespace {

size_t index_of(const std::vector<Variant>& variants, const std::string& name) {
  return size_t(std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == name; }) -
                variants.begin());
}

std::vector<std::pair<std::string, std::string>> environment_of() {
  const Machine m = machine();
  const BuildInfo& b = build_info();
  return {{"version", b.version},
          {"commit", b.commit},
          {"compiler", b.compiler},
          {"build", b.build_type},
          {"cpu", m.cpu},
          {"instruction set", kernels::name_of(kernels::usable_isa())},
          {"threads", cat(threads())},
          {"memory", format_bytes(double(m.memory))}};
}

Contender contender_of(const Variant& v, const Material& material, const Path& weights) {
  const ModelConfig model = last_config(material.complete(v.recipe), v.recipe.train.growth);
  return {v.name, model, v.recipe.train, v.recipe.data.sequence_length, weights, v.recipe.generate.cache_type()};
}

uint64_t checksum_of(const std::string& text) { return checksum(text.data(), text.size()); }

std::string model_of(const Variant& v) {
  std::string text = v.name + "\n";
  for (const auto& [key, value] : leaves(v.recipe))
    if (key.starts_with("model.") || key.starts_with("train.batch") || key.starts_with("train.precision") ||
        key.starts_with("train.gradient"))
      text += key + "=" + value + "\n";
  return text;
}

// Step times for match: time. Measured once: later calls, and a continued comparison, take what the file says.
std::vector<double> step_seconds(const std::vector<Variant>& variants, const Material& material, const Path& file,
                                 bool keep) {
  std::string key_text = cat(threads(), "\n");
  for (const Variant& v : variants) key_text += model_of(v);
  const std::string key = cat(checksum_of(key_text));
  if (file.has_parent_path() && std::filesystem::exists(file)) {
    const Json json = parse_json(read_file(file), file.string());
    check_usage(json.at("key") == key, "compare", "'", file.string(),
                "' holds step times of other variants or another number of threads, and their runs stand beside it; "
                "choose another --out");
    return json.at("step_seconds");
  }
  constexpr int64_t kRounds = 5, kSteps = 2;
  std::vector<std::vector<double>> times(variants.size());
  for (int64_t r = 0; r < kRounds; ++r)
    for (size_t i = 0; i < variants.size(); ++i) {
      check(!stop_signal(), "compare", "stopped by signal ", stop_signal());
      const size_t v = (i + size_t(r)) % variants.size();
      times[v].push_back(time_training(contender_of(variants[v], material, ""), material.batches(), kSteps));
    }
  std::vector<double> out;
  for (const auto& t : times) out.push_back(quantile(t, 0.5));
  if (keep) write_file(file, dump(Json({{"key", key}, {"step_seconds", out}}), 2) + "\n");
  return out;
}

// The score that PRR, PEoP and the charts use.
void choose_score(Experiment& e, bool translates, bool labels) {
  check_usage(
      labels ? e.score.empty() || e.score == "task_metric" || e.score == "token_perplexity" : e.score != "task_metric",
      "compare", "score ", e.score,
      labels ? " is not of labelled examples; leave it out for the task's first metric"
             : " is of a section task, which the recipe has not");
  if (labels) {
    if (e.score.empty()) e.score = "task_metric";
    return;
  }
  if (e.score.empty()) e.score = translates ? "bleu" : "token_perplexity";
  const bool of_translations = e.score == "bleu" || e.score == "chrf";
  check_usage(translates ? of_translations || e.score == "token_perplexity" : !of_translations, "compare", "score ",
              e.score, translates ? " is of a text, and these variants translate" : " is of translations",
              "; choose another, or leave it out");
}

class Comparer {
 public:
  explicit Comparer(const Request& request) : request_(request) {}

  Comparison run() {
    Comparison& c = result_;
    c.experiment = read_experiment(request_.experiment);
    variants_ = make_variants(c.experiment);
    check_fairness(variants_, c.experiment);
    const bool translates = variants_[0].translates();
    const bool labels = variants_[0].labels();
    const PartChoice& objective = variants_[0].recipe.train.objective;
    check_usage(translates || labels || make_objective(objective)->predicts_next(), "compare", "objective ",
                objective.type,
                ": comparisons are of the next token, of translations and of tasks; `lithe finetune` compares "
                "pre-trained encoders by their tasks");
    choose_score(c.experiment, translates, labels);
    material_ = make_material(variants_[0].recipe, c.experiment.score);  // of all: check_fairness has seen to that
    c.data = material_->fingerprint();
    c.held_out = material_->held_out();
    match_budget(variants_, c.experiment, *material_, [&](const std::vector<Variant>& variants) {
      check_usage(
          request_.only.empty() || std::filesystem::exists(request_.out / "budget.json"), "compare",
          "--only trains one run, whose steps follow from the times of all variants (budget.match: time), and '",
          request_.out.string(), "' holds none; run the whole comparison there, with -j");
      return step_seconds(variants, *material_, request_.out / "budget.json", !request_.plan_only);
    });
    check_fairness(variants_, c.experiment);
    c.baseline = index_of(variants_, c.experiment.baseline);
    c.peop_baseline = index_of(variants_, c.experiment.peop_baseline);
    c.environment = environment_of();
    const ModelConfig base = material_->complete(variants_[c.baseline].recipe);
    for (const Variant& v : variants_) {
      VariantResult r;
      r.variant = v;
      r.start = shared_start(base, material_->complete(v.recipe));
      c.variants.push_back(std::move(r));
    }
    if (!request_.only.empty()) {
      if (!train_one(request_.only)) c.status = Progress::stopped;
      return std::move(result_);
    }
    if (!request_.plan_only) {
      write_file(request_.out / "experiment.yaml", c.experiment.text);
      if (!train_all() || !time_all()) c.status = Progress::stopped;
    }
    find(c);
    if (!request_.plan_only) write();
    return std::move(result_);
  }

 private:
  const Request& request_;
  Comparison result_;
  std::vector<Variant> variants_;
  std::unique_ptr<Material> material_;

  // "VARIANT/SEED".
  bool train_one(const std::string& name) {
    std::vector<std::string> known;
    for (const int64_t seed : result_.experiment.seeds)
      for (VariantResult& v : result_.variants) {
        known.push_back(cat(v.variant.name, "/", seed));
        if (known.back() != name) continue;
        auto outcome = run_variant(v.variant, seed, request_.out, *material_, result_.experiment.measure.precision);
        if (outcome) v.runs.push_back(std::move(*outcome));
        return !v.runs.empty();
      }
    fail_usage("compare", "--only ", name, " is no run of this experiment; its runs: ", join(known));
  }

  // Those that are not done, each as this program with --only.
  bool train_side_by_side() {
    std::vector<SideJob> jobs;
    for (const int64_t seed : result_.experiment.seeds)
      for (const VariantResult& v : result_.variants) {
        const std::string& name = v.variant.name;
        if (done_variant(v.variant, seed, request_.out, *material_, result_.experiment.measure.precision)) continue;
        jobs.push_back(side_job(cat("variant '", name, "', seed ", seed),
                                {"compare", request_.experiment.string(), "--out", request_.out.string()},
                                cat(name, "/", seed), run_directory(request_.out, name, seed)));
      }
    return run_side_by_side("compare", request_.launcher, threads(), jobs, request_.out / "comparison.html");
  }

  // Seed by seed, so that a comparison that is stopped has whole seeds.
  bool train_all() {
    if (!request_.launcher.alone() && !train_side_by_side()) return false;
    for (int64_t seed : result_.experiment.seeds)
      for (VariantResult& v : result_.variants) {
        auto outcome = run_variant(v.variant, seed, request_.out, *material_, result_.experiment.measure.precision);
        if (!outcome) return false;
        material_->count(*outcome);
        v.runs.push_back(std::move(*outcome));
      }
    return true;
  }

  bool time_all() {
    const MeasureConfig& m = result_.experiment.measure;
    if (!m.repeats) return true;
    std::vector<Contender> contenders;
    for (const VariantResult& v : result_.variants) {
      const auto run = std::find_if(v.runs.begin(), v.runs.end(), [](const Outcome& o) { return o.finished(); });
      contenders.push_back(
          contender_of(v.variant, *material_, run == v.runs.end() ? "" : run->directory / "model.safetensors"));
    }
    contenders.push_back(contenders[result_.baseline]);
    const size_t count = contenders.size();
    SpeedMaterial material = material_->timed(result_.variants[0].variant.recipe, m);
    result_.speed.sentences = int64_t(material.sentences.size());
    log_info("timing ", counted(int64_t(result_.variants.size()), "variant"), " in ", counted(m.repeats, "round"));
    SpeedBench bench(std::move(contenders), m, std::move(material));
    return take_rounds(bench, count, m.repeats, timing_key(), request_.out / "rounds.json", result_.speed);
  }

  // Differs when rounds measure something else, or on another machine.
  std::string timing_key() const {
    std::string text;
    for (const VariantResult& v : result_.variants)
      text += model_of(v.variant) + "generate.cache_dtype=" + v.variant.recipe.generate.cache_dtype + "\n";
    for (const auto& [name, value] : result_.environment) text += value + "\n";
    text += to_yaml(write_fields([&](Fields& f) {
      MeasureConfig measure = result_.experiment.measure;
      measure.repeats = 1;  // more rounds may follow
      measure.fields(f);
    }));
    return cat(checksum_of(text + material_->timed_key(result_.variants[0].variant.recipe)));
  }

  void write() {
    write_file(request_.out / "comparison.json", to_json_text(result_));
    write_file(request_.out / "comparison.md", to_markdown(result_));
    write_file(request_.out / "comparison.html", to_page(result_));
  }
};

}  // namespace

namespace {

// What stands in `out` must be this comparison so far, not something else that it would be mixed with.
void check_directory(const Request& request) {
  const Path kept = request.out / "experiment.yaml";
  check_usage(!std::filesystem::exists(request.out / "resolved_recipe.yaml"), "compare", "'", request.out.string(),
              "' holds a training run; give another --out");
  if (!std::filesystem::exists(kept)) return;
  std::vector<std::string> before;
  const Node old = parse_yaml(read_file(kept), kept.string());
  if (const Node* variants = old.find("variants"))
    for (const auto& [name, value] : variants->entries()) before.push_back(name);
  const auto now = read_experiment(request.experiment).variants;
  const bool shared = std::any_of(now.begin(), now.end(), [&](const VariantConfig& v) {
    return std::find(before.begin(), before.end(), v.name) != before.end();
  });
  check_usage(shared || before.empty(), "compare", "'", request.out.string(), "' holds another comparison, of ",
              join(before), "; give another --out");
}

}  // namespace

Comparison compare(const Request& request) {
  if (request.plan_only) return Comparer(request).run();
  check_usage(!std::filesystem::exists(request.out) || std::filesystem::is_directory(request.out), "compare", "'",
              request.out.string(), "' is a file; give --out a directory");
  check_directory(request);
  if (!request.only.empty()) return Comparer(request).run();
  const OutputDirectory directory(request.out);
  Description experiment(request.out / "experiment.yaml"), budget(request.out / "budget.json");
  Comparison result = Comparer(request).run();
  experiment.keep(), budget.keep();
  return result;
}

}  // namespace lithe::compare
