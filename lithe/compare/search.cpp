#include "lithe/compare/search.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/output_directory.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/compare/budget.h"
#include "lithe/compare/description.h"
#include "lithe/compare/runs.h"
#include "lithe/compare/speed.h"
#include "lithe/compare/statistics.h"
#include "lithe/compare/supernet.h"
#include "lithe/data/batches.h"

namespace lithe::compare {
namespace {

class Searcher {
 public:
  Searcher(const Path& file, const Path& out, const Launcher& launcher) : out_(out), launcher_(launcher) {
    result_.search = read_search(file);
  }

  SearchResult run(const std::string& only) {
    SearchFile& s = result_.search;
    base_ = read({});
    check_usage(base_.recipe.train.max_time == 0, "search",
                "train.max_time ends a run by the clock, which gives other results each time; remove it");
    check_usage(!base_.translates() && make_objective(base_.recipe.train.objective)->predicts_next(), "search",
                "candidates are compared by their loss of the next token, so train.objective must be clm");
    material_ = std::make_unique<TextMaterial>("search", base_.recipe, uint64_t(s.training_seed));
    std::vector<int64_t> sizes;
    for (const auto& [key, values] : s.choices) sizes.push_back(int64_t(values.size()));
    if (!only.empty()) return train_one(only, sizes);
    write_file(out_ / "search.yaml", s.text);
    if (s.supernet.steps) {
      if (!search_shared(sizes)) return stopped();
    } else {
      if (!launcher_.alone() && !train_ahead(sizes)) return stopped();
      search_grid(sizes, s.how, [&](const Point& point) { return trained(point); });
    }
    check_usage(open_ || !result_.candidates.empty(), "search", "nothing was looked at");
    const bool any = std::any_of(result_.candidates.begin(), result_.candidates.end(),
                                 [](const Candidate& c) { return c.status != CandidateStatus::refused; });
    check_usage(any || !open_, "search", "no candidate can be built; the first: ",
                result_.candidates.empty() ? "" : result_.candidates[0].message);
    if (!open_) return stopped();
    finish();
    return std::move(result_);
  }

 private:
  Path out_;
  const Launcher& launcher_;
  SearchResult result_;
  Variant base_;
  std::unique_ptr<TextMaterial> material_;
  std::unique_ptr<Supernet> supernet_;
  struct Judged {
    Variant variant;
    Candidate candidate;
  };
  std::map<Point, Judged> judged_;
  bool open_ = true;  // nobody asked to stop

  SearchResult stopped() {
    result_.status = Progress::stopped;
    finish();
    return std::move(result_);
  }

  std::string name_of(const Point& point) const {
    std::string name = "c";
    for (const int64_t i : point) name += cat("-", i);
    return name;
  }

  // The recipe with a point's values; of no point: as it is.
  Variant read(const Point& point) const {
    const SearchFile& s = result_.search;
    Experiment e;
    e.file = s.file;
    e.recipe = s.recipe;
    e.set = s.set;
    VariantConfig variant{point.empty() ? "recipe" : name_of(point), "", {}};
    for (size_t i = 0; i < point.size(); ++i) {
      const auto& [key, values] = s.choices[i];
      variant.override.emplace_back(key, parse_yaml(values[size_t(point[i])], "choices." + key));
    }
    e.variants.push_back(std::move(variant));
    return make_variants(e, "search")[0];
  }

  // What a point costs, before anything is trained.
  Candidate planned(const Point& point, Variant& variant, bool timed = true) {
    Candidate c{.name = name_of(point), .point = point, .values = {}, .status = CandidateStatus::open, .message = {}};
    for (size_t i = 0; i < point.size(); ++i) c.values.push_back(result_.search.choices[i].second[size_t(point[i])]);
    try {
      variant = read(point);
      plan_variant(variant, *material_);
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      c.status = CandidateStatus::refused;
      c.message = error.what();
      return c;
    }
    c.parameters = variant.plan.parameters;
    c.flops = variant.plan.forward.flops / variant.step_tokens;
    c.memory = double(variant.plan.memory.peak);
    if (timed && result_.search.budget.latency > 0) c.latency = latency(variant);
    c.fits = true;
    for (const Budgeted& b : budgets(c)) c.fits = c.fits && (b.budget <= 0 || b.amount <= b.budget);
    return c;
  }

  std::vector<Budgeted> budgets(const Candidate& c) const {
    const SearchBudget& b = result_.search.budget;
    return {{double(c.parameters), b.parameters, b.weight},
            {c.flops, b.flops, b.weight},
            {c.memory, b.memory, b.weight},
            {c.latency, b.latency, b.weight}};
  }

  // Measured once: a search that goes on must take the way that it took.
  double latency(const Variant& v) const {
    const Path file = out_ / "latency" / (v.name + ".json");
    if (std::filesystem::exists(file)) return parse_json(read_file(file), file.string()).at("milliseconds");
    MeasureConfig measure;
    measure.prompt_lengths = {result_.search.budget.prompt_length};
    measure.batch_sizes = {1};
    measure.train_steps = 0;
    const Contender one{v.name, material_->complete(v.recipe), v.recipe.train, v.recipe.data.sequence_length,
                        "",     v.recipe.generate.cache_type()};
    SpeedBench bench({one, one}, measure, material_->timed(v.recipe, measure));
    check_usage(bench.costs()[0][0].refused.empty(), "search", "latency of ", v.name,
                " cannot be measured: ", bench.costs()[0][0].refused, "; lower budget.prompt_length");
    std::vector<double> times;
    for (int64_t round = 0; round < 3; ++round) {
      const std::vector<Timing> taken = bench.round(round);
      check(!taken.empty(), "search", "stopped by signal ", stop_signal());
      for (const Timing& t : taken) times.push_back(1e3 * t.decode_token[0]);
    }
    const double milliseconds = quantile(times, 0.5);
    make_directory(file.parent_path());
    write_file(file, dump(Json({{"milliseconds", milliseconds}})) + "\n");
    return milliseconds;
  }

  // The same, and whether the budget lets it be trained: else it is not open.
  const Judged& judged(const Point& point) {
    if (const auto known = judged_.find(point); known != judged_.end()) return known->second;
    Judged out;
    Candidate& c = out.candidate = planned(point, out.variant);
    const SearchFile& s = result_.search;
    if (c.status == CandidateStatus::open && !c.fits && !s.train_beyond && s.budget.weight > 0)
      c.status = CandidateStatus::beyond;
    c.objective = INFINITY;
    return judged_[point] = std::move(out);
  }

  void take(Candidate& c, const Outcome& outcome) const {
    c.status = outcome.finished() ? CandidateStatus::finished : CandidateStatus::diverged;
    c.message = outcome.message;
    c.seconds = outcome.seconds;
    if (!outcome.finished()) return;
    c.loss = outcome.quality.loss();
    c.objective = objective_of(c.loss, budgets(c));
  }

  SearchResult train_one(const std::string& only, const std::vector<int64_t>& sizes) {
    Point first(sizes.size(), 0), last = sizes, point;
    for (int64_t& value : last) --value;
    std::string rest = only.substr(0, 1) == "c" ? only.substr(1) : "";
    for (const int64_t size : sizes)
      for (int64_t value = size; value-- > 0;)
        if (const std::string part = cat("-", value); rest.starts_with(part)) {
          point.push_back(value);
          rest.erase(0, part.size());
          break;
        }
    check_usage(point.size() == sizes.size() && name_of(point) == only, "search", "--only ", only,
                " is no candidate of this search, which are ", name_of(first), " to ", name_of(last));
    Variant variant;
    Candidate c = planned(point, variant, false);
    check_usage(c.status == CandidateStatus::open, "search", only, " cannot be built: ", c.message);
    write_file(out_ / "search.yaml", result_.search.text);  // later calls compare their choices with these
    const auto outcome = run_variant(variant, result_.search.training_seed, out_, *material_, "f32");
    if (outcome)
      take(c, *outcome);
    else
      result_.status = Progress::stopped;
    result_.candidates.push_back(std::move(c));
    return std::move(result_);
  }

  SideJob job_of(const std::string& candidate) const {
    const SearchFile& s = result_.search;
    return side_job(cat("candidate ", candidate), {"search", s.file.string(), "--out", out_.string()}, candidate,
                    run_directory(out_, candidate, s.training_seed));
  }

  // Trains, round by round, all that the search will look at and whose choice waits for nothing else in the round.
  // False: asked to stop.
  bool train_ahead(const std::vector<int64_t>& sizes) {
    for (std::set<std::string> begun;;) {
      std::vector<SideJob> jobs;
      search_grid(sizes, result_.search.how, [&](const Point& point) -> std::optional<double> {
        if (stop_signal()) return std::nullopt;
        const auto& [variant, candidate] = judged(point);
        Candidate c = candidate;
        if (c.status != CandidateStatus::open) return c.objective;
        const auto outcome = done_variant(variant, result_.search.training_seed, out_, *material_, "f32");
        if (outcome)
          take(c, *outcome);
        else if (begun.insert(c.name).second)
          jobs.push_back(job_of(c.name));
        return outcome ? c.objective : std::nan("");
      });
      if (stop_signal()) return open_ = false;
      if (jobs.empty()) return true;
      if (!run_side_by_side("search", launcher_, threads(), jobs, out_ / "search.html")) return open_ = false;
    }
  }

  // The objective of a point, trained; none when asked to stop.
  std::optional<double> trained(const Point& point, double shared_loss = std::nan("")) {
    if (stop_signal()) {
      open_ = false;
      return std::nullopt;
    }
    const auto& [variant, candidate] = judged(point);
    Candidate c = candidate;
    c.shared_loss = shared_loss;
    if (c.status == CandidateStatus::open) {
      const auto outcome = run_variant(variant, result_.search.training_seed, out_, *material_, "f32");
      if (!outcome) {
        open_ = false;
        return std::nullopt;
      }
      take(c, *outcome);
      log_info("candidate ", c.name, ": loss ", c.loss, ", objective ", c.objective, ", ", c.parameters, " parameters");
    }
    const double objective = c.objective;
    result_.candidates.push_back(std::move(c));
    return objective;
  }

  // Those of the points that are not done. False: asked to stop.
  bool train_side_by_side(std::span<const Evaluated> points) {
    std::vector<SideJob> jobs;
    for (const Evaluated& one : points) {
      const auto& [variant, c] = judged(one.point);
      if (c.status == CandidateStatus::open &&
          !done_variant(variant, result_.search.training_seed, out_, *material_, "f32"))
        jobs.push_back(job_of(c.name));
    }
    return run_side_by_side("search", launcher_, threads(), jobs, out_ / "search.html") || (open_ = false);
  }

  // Candidates are searched by what the shared weights score, and the best of them trained.
  bool search_shared(const std::vector<int64_t>& sizes) {
    const SearchFile& s = result_.search;
    std::vector<ModelConfig> corners;
    std::map<Point, std::optional<ModelConfig>> known;
    const auto config_at = [&](const Point& point) -> const std::optional<ModelConfig>& {
      const auto [at, fresh] = known.try_emplace(point);
      Variant v;
      if (fresh && planned(point, v, false).status != CandidateStatus::refused)
        at->second = material_->complete(v.recipe);
      return at->second;
    };
    // Every value of every choice, beside the last values of the others.
    for (size_t i = 0; i < sizes.size(); ++i)
      for (int64_t value = 0; value < sizes[i]; ++value) {
        Point point;
        for (const int64_t size : sizes) point.push_back(size - 1);
        point[i] = value;
        if (const auto& config = config_at(point)) corners.push_back(*config);
      }
    check_usage(!corners.empty(), "search",
                "the super-network needs a candidate of the last value of each choice, and ",
                "none of them can be built; order the values so that these go together");
    TrainConfig train = base_.recipe.train;
    train.seed = s.training_seed;
    supernet_ = std::make_unique<Supernet>(corners, train);
    log_info("super-network of ", supernet_->parameters(), " parameters");
    const auto random_config = [&](int64_t step) {
      for (uint64_t draw = 0;; ++draw) {
        Point point;
        for (size_t i = 0; i < sizes.size(); ++i)
          point.push_back(int64_t(
              random_below({.seed = s.how.seed, .step = uint64_t(step), .purpose = purpose_of("supernet.candidate")},
                           draw * sizes.size() + i, uint64_t(sizes[i]))));
        if (const auto& config = config_at(point)) return *config;
        check_usage(draw < 1000, "search", "of 1000 random candidates none can be built; narrow the choices");
      }
    };
    if (!supernet_->train(s.supernet.steps, random_config, material_->batches(), out_ / "supernet.safetensors"))
      return open_ = false;
    std::map<Point, Candidate> scored;
    GridSearch how = s.how;
    how.evaluations = s.supernet.candidates;
    std::vector<Evaluated> all = search_grid(sizes, how, [&](const Point& point) -> std::optional<double> {
      if (stop_signal()) return std::nullopt;
      Variant variant;
      Candidate c = planned(point, variant);
      c.objective = INFINITY;
      if (c.status == CandidateStatus::open) {
        const NoGrad no_grad;
        const auto model = supernet_->model(material_->complete(variant.recipe));
        c.status = CandidateStatus::shared;
        c.shared_loss =
            perplexity(*model, material_->validation(), variant.recipe.eval, variant.recipe.data.sequence_length)
                .loss();
        c.objective = objective_of(c.shared_loss, budgets(c));
        if (!c.fits && !s.train_beyond && s.budget.weight > 0) c.objective = INFINITY;
      }
      return (scored[point] = c).objective;
    });
    if (stop_signal()) return open_ = false;
    std::stable_sort(all.begin(), all.end(),
                     [](const Evaluated& a, const Evaluated& b) { return a.objective < b.objective; });
    size_t best = 0;
    while (best < all.size() && int64_t(best) < s.how.evaluations && std::isfinite(all[best].objective)) ++best;
    if (!launcher_.alone() && !train_side_by_side(std::span(all).first(best))) return false;
    for (const Evaluated& one : std::span(all).first(best))
      if (!trained(one.point, scored.at(one.point).shared_loss)) return false;
    for (const Evaluated& one : all) {
      const bool listed = std::any_of(result_.candidates.begin(), result_.candidates.end(),
                                      [&](const Candidate& c) { return c.point == one.point; });
      if (!listed) result_.candidates.push_back(scored.at(one.point));
    }
    return true;
  }

  void finish() {
    const Candidate* best = nullptr;
    for (const Candidate& c : result_.candidates)
      if (c.status == CandidateStatus::finished && (!best || c.objective < best->objective)) best = &c;
    if (best) result_.best = best->name;
    write_experiment();
    write_file(out_ / "search.json", to_json_text(result_));
    write_file(out_ / "search.html", to_page(result_));
  }

  // The best candidates as an experiment over the runs that are there.
  void write_experiment() const {
    constexpr size_t kMost = 8;
    std::vector<const Candidate*> finished;
    for (const Candidate& c : result_.candidates)
      if (c.status == CandidateStatus::finished) finished.push_back(&c);
    if (finished.size() < 2) return;
    std::stable_sort(finished.begin(), finished.end(),
                     [](const Candidate* a, const Candidate* b) { return a->objective < b->objective; });
    if (finished.size() > kMost) finished.resize(kMost);
    const SearchFile& s = result_.search;
    Node root = Node::map(), variants = Node::map(), set = Node::map(), seeds = Node::list(), budget = Node::map();
    root.set("recipe", Node::scalar(std::filesystem::absolute(base_.file).string()));
    for (const auto& [key, value] : s.set) set.set(key, value);
    if (!s.set.empty()) root.set("set", set);
    root.set("baseline", Node::scalar(finished[0]->name));
    for (const Candidate* c : finished) {
      Node changes = Node::map();
      for (size_t i = 0; i < s.choices.size(); ++i)
        changes.set(s.choices[i].first, parse_yaml(c->values[i], s.choices[i].first));
      variants.set(c->name, changes);
    }
    root.set("variants", variants);
    seeds.push(Node::scalar(cat(s.training_seed)));
    root.set("seeds", seeds);
    budget.set("match", Node::scalar("none"));
    root.set("budget", budget);
    write_file(out_ / "compare.yaml",
               "# The best candidates of a search: lithe compare DIR/compare.yaml --out DIR\n" + to_yaml(root));
  }
};

void check_directory(const Path& out, const Path& file) {
  check_usage(!std::filesystem::exists(out) || std::filesystem::is_directory(out), "search", "'", out.string(),
              "' is a file; give --out a directory");
  check_usage(!std::filesystem::exists(out / "resolved_recipe.yaml"), "search", "'", out.string(),
              "' holds a training run; give another --out");
  const Path kept = out / "search.yaml";
  if (!std::filesystem::exists(kept)) return;
  const auto keys = [](const SearchFile& s) {
    std::string text;
    for (const auto& [key, values] : s.choices) text += key + ": [" + join(values) + "]; ";
    return text;
  };
  const std::string before = keys(read_search(kept)), now = keys(read_search(file));
  check_usage(before == now, "search", "'", out.string(), "' holds a search over other choices (", before,
              "), whose candidates have the same names; give another --out");
}

}  // namespace

SearchResult search(const Path& file, const Path& out, const Launcher& launcher, const std::string& only) {
  check_directory(out, file);
  const MadeDirectory made(out);
  std::optional<OutputDirectory> locked;
  if (only.empty()) locked.emplace(out);  // runs of one candidate each go on beside each other
  Description description(out / "search.yaml");
  SearchResult result = Searcher(file, out, launcher).run(only);
  description.keep();
  return result;
}

const char* name_of(CandidateStatus status) {
  static constexpr const char* names[] = {"open", "refused", "beyond", "shared", "finished", "diverged"};
  return names[size_t(status)];
}

std::string to_json_text(const SearchResult& r) {
  Json json = {
      {"status", name_of(r.status)}, {"method", r.search.how.method}, {"best", r.best}, {"candidates", Json::array()}};
  for (const auto& [key, values] : r.search.choices) json["choices"][key] = values;
  for (const Candidate& c : r.candidates) {
    Json values;
    for (size_t i = 0; i < c.values.size(); ++i) values[r.search.choices[i].first] = c.values[i];
    json["candidates"].push_back({{"name", c.name},
                                  {"status", name_of(c.status)},
                                  {"message", c.message},
                                  {"values", values},
                                  {"parameters", c.parameters},
                                  {"flops_per_token", c.flops},
                                  {"memory_bytes", c.memory},
                                  {"latency_milliseconds", finite_or_null(c.latency)},
                                  {"shared_loss", finite_or_null(c.shared_loss)},
                                  {"loss", finite_or_null(c.loss)},
                                  {"objective", finite_or_null(c.objective)},
                                  {"seconds", c.seconds},
                                  {"fits", c.fits}});
  }
  return dump(json, 2, Invalid::replaced) + "\n";
}

}  // namespace lithe::compare
