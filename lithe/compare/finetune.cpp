#include "lithe/compare/finetune.h"

#include <chrono>
#include <cmath>
#include <set>

#include "lithe/base/counted.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/quiet_log.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/compare/statistics.h"
#include "lithe/infer/load.h"
#include "lithe/train/resume.h"
#include "lithe/train/task_score.h"

namespace lithe::compare {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// What all models share of a task, or of one fold of it.
struct Task {
  TaskConfig config;
  std::vector<TaskMetric> metrics;
  std::vector<std::string> labels;
  std::vector<Example> scored;  // the test part, else the validation part
  std::string part;
  BaselineScores baselines;
  std::vector<double> majority;  // the scores of the most frequent label of the training part; NaN without classes
};

std::vector<double> values_of(const std::vector<Score>& scores) {
  std::vector<double> out;
  for (const Score& s : scores) out.push_back(s.value);
  return out;
}

Task read_task(const TaskConfig& config) {
  TaskData data = load_task(config);
  Task task{.config = config, .metrics = choose_metrics(config, data.labels).metrics, .labels = data.labels};
  task.part = data.test.empty() ? "validation" : "test";
  task.scored = std::move(data.test.empty() ? data.validation : data.test);
  check_usage(!task.scored.empty(), "finetune", "the task has neither test nor validation examples to score");
  task.majority.assign(task.metrics.size(), NAN);
  task.baselines = baseline_scores(config, task.scored, data.train, task.labels);
  for (const auto& [name, scores] : task.baselines)
    if (name == "majority") task.majority = values_of(scores);
  return task;
}

struct Scored {
  std::vector<double> scores;
  int64_t parameters = 0, embedding_parameters = 0;
};

TaskBatches batches_of(const TrainRun& run, const Task& task, const LoadedModel& loaded, size_t most) {
  std::vector<Example> examples(task.scored.begin(), task.scored.begin() + long(std::min(most, task.scored.size())));
  return TaskBatches(std::move(examples), task_type(task.config), *loaded.tokenizer, run.recipe.data.sequence_length,
                     run.recipe.train.batch_tokens, 0, false, task_reading(run.recipe));
}

Scored score(const TrainRun& run, const Task& task) {
  Scored out;
  const std::optional<TaskScore> reported = score_task(run.out, run.recipe, &task.baselines);
  if (stop_signal()) return out;
  // Scored already: nothing but shapes is asked of it.
  const LoadedModel loaded =
      reported ? outline_model(run.out, scored_weights(run.out, run.recipe), "f32") : load_scored(run.out, run.recipe);
  if (reported) {
    out.scores = values_of(reported->report.scores);
  } else {
    const TaskAnswers answers = answer(*loaded.model, batches_of(run, task, loaded, task.scored.size()));
    out.scores = values_of(score_predictions(task.metrics, answers.predictions, task.scored, task.labels));
  }
  out.parameters = loaded.model->parameters().count();
  for (const Parameter& p : loaded.model->parameters().all())
    if (p.name.starts_with("embedding.")) out.embedding_parameters += p.master.shape().numel();
  return out;
}

// Differs when anything that shapes the scores differs.
uint64_t key_of(const TrainRun& run) {
  const std::string text = to_yaml(resolved(run.recipe));
  return checksum(text.data(), text.size());
}

std::optional<Scored> stored(const Path& file, uint64_t key) {
  if (!fs::exists(file)) return std::nullopt;
  try {
    const Json json = parse_json(read_file(file), file.string());
    if (json.at("key").get<std::string>() != cat(key)) return std::nullopt;
    Scored out;
    for (const Json& s : json.at("scores")) out.scores.push_back(number_or_nan(s));
    out.parameters = json.at("parameters");
    out.embedding_parameters = json.at("embedding_parameters");
    return out;
  } catch (const std::exception& error) {
    log_warning("'", file.string(), "' is damaged (", error.what(), "); scoring again");
    return std::nullopt;
  }
}

void store(const Path& file, uint64_t key, const Scored& s) {
  Json scores = Json::array();
  for (double v : s.scores) scores.push_back(finite_or_null(v));
  write_file(file, dump(Json({{"key", cat(key)},
                              {"scores", scores},
                              {"parameters", s.parameters},
                              {"embedding_parameters", s.embedding_parameters}}),
                        2) +
                       "\n");
}

// Seconds a sample. Once before the clock runs, so that weights and code are there.
double time_answers(const TrainRun& run, const Task& task) {
  constexpr size_t kMost = 256;
  const LoadedModel loaded = load_scored(run.out, run.recipe);
  answer(*loaded.model, batches_of(run, task, loaded, 1));
  const TaskBatches batches = batches_of(run, task, loaded, kMost);
  const auto start = Clock::now();
  answer(*loaded.model, batches);
  return std::chrono::duration<double>(Clock::now() - start).count() / double(batches.examples().size());
}

// A training: of a model on a task, or on one fold of it, with one seed.
struct Trial {
  size_t model, task;
  int64_t seed, fold;  // fold from 1; 1 where there are none
};

// What a request asks to be trained.
class Trials {
 public:
  explicit Trials(const FinetuneRequest& request) : r_(request) {}
  int64_t folds() const { return std::max<int64_t>(1, r_.folds); }

  Recipe read(size_t task, size_t model, const std::vector<std::string>& more) const {
    std::vector<std::string> set = r_.set;
    if (const PretrainedModel& from = r_.models[model]; !from.directory.empty()) {
      set.push_back(cat("from_pretrained=", from.directory.string()));
      set.push_back(cat("fresh_weights=", from.fresh ? "true" : "false"));
    }
    if (r_.folds) set.push_back(cat("task.folds=", r_.folds));
    set.insert(set.end(), more.begin(), more.end());
    return load_recipe(r_.tasks[task], set);
  }
  TaskConfig config(const Recipe& recipe, int64_t fold) const {
    TaskConfig config = recipe.task;
    if (r_.folds) config.fold = fold;
    return config;
  }

  std::string task(size_t t) const { return r_.tasks[t].stem().string(); }
  // As --only has it.
  std::string name(const Trial& of) const {
    return cat(r_.models[of.model].name, "/", task(of.task), "/", of.seed, r_.folds ? cat("/", of.fold) : "");
  }
  std::string said(const Trial& of) const {
    return cat("model ", r_.models[of.model].name, ", task ", task(of.task), ", seed ", of.seed,
               r_.folds ? cat(", fold ", of.fold, " of ", r_.folds) : "");
  }
  Path directory(const Trial& of) const {
    const Path seed = r_.out / "runs" / r_.models[of.model].name / task(of.task) / cat("seed-", of.seed);
    return r_.folds ? seed / cat("fold-", of.fold) : seed;
  }
  TrainRun run(const Trial& of) const {
    std::vector<std::string> set{cat("train.seed=", of.seed)};
    if (r_.folds) set.push_back(cat("task.fold=", of.fold));
    TrainRun run{.out = directory(of), .recipe = read(of.task, of.model, set)};
    run.resume = has_begun(run.out);
    return run;
  }

  // Of a model and task, seed by seed.
  std::vector<Trial> of(size_t model, size_t task) const {
    std::vector<Trial> out;
    for (const int64_t seed : r_.seeds)
      for (int64_t fold = 1; fold <= folds(); ++fold) out.push_back({model, task, seed, fold});
    return out;
  }
  std::vector<Trial> all() const {
    std::vector<Trial> out;
    for (size_t m = 0; m < r_.models.size(); ++m)
      for (size_t t = 0; t < r_.tasks.size(); ++t)
        for (const Trial& one : of(m, t)) out.push_back(one);
    return out;
  }

 private:
  const FinetuneRequest& r_;
};

std::optional<Scored> done(const TrainRun& run) { return stored(run.out / "scores.json", key_of(run)); }

// None when asked to stop.
std::optional<Scored> train_and_score(const TrainRun& run, const Task& task, const std::string& said) {
  log_info(said);
  const QuietLog quiet;
  if (train(run).status != RunStatus::finished || stop_signal()) return std::nullopt;
  Scored scored = score(run, task);
  if (stop_signal()) return std::nullopt;
  store(run.out / "scores.json", key_of(run), scored);
  return scored;
}

bool train_one(const Trials& trials, const std::string& only) {
  std::vector<std::string> known;
  for (const Trial& one : trials.all()) {
    known.push_back(trials.name(one));
    if (known.back() != only) continue;
    const TrainRun run = trials.run(one);
    return done(run) ||
           train_and_score(run, read_task(trials.config(run.recipe, one.fold)), trials.said(one)).has_value();
  }
  fail_usage("finetune", "--only ", only, " is no run of these models and tasks; the runs: ", join(known));
}

// Those that are not done, each as this program with --only.
void train_side_by_side(const FinetuneRequest& request, const Trials& trials) {
  std::vector<std::string> words{"finetune"};
  bool fresh = false;
  for (const PretrainedModel& m : request.models) {
    fresh = fresh || m.fresh;
    if (!m.fresh && !m.directory.empty()) words.push_back(cat(m.name, "=", m.directory.string()));
  }
  words.push_back("--tasks");
  for (const Path& task : request.tasks) words.push_back(task.string());
  words.insert(words.end(), {"--out", request.out.string(), "--seeds"});
  std::string seeds;
  for (const int64_t seed : request.seeds) seeds += cat(seeds.empty() ? "" : ",", seed);
  words.push_back(seeds);
  if (request.folds) words.insert(words.end(), {"--folds", cat(request.folds)});
  if (fresh) words.push_back("--scratch");
  for (const std::string& assignment : request.set) words.insert(words.end(), {"--set", assignment});
  std::vector<SideJob> jobs;
  for (const Trial& one : trials.all())
    if (!done(trials.run(one)))
      jobs.push_back(side_job(trials.said(one), words, trials.name(one), trials.directory(one)));
  run_side_by_side("finetune", request.launcher, threads(), jobs, request.out / "finetuning.html");
}

using Timed = std::vector<std::vector<std::optional<TrainRun>>>;  // by model and task: of the first seed

// Differs when other models would be timed.
std::string key_of(const Timed& runs) {
  std::string keys;
  for (const auto& tasks : runs)
    for (const auto& run : tasks) keys += cat(run ? cat(key_of(*run)) : "none", " ");
  return keys;
}

bool take_stored_times(Finetuning& result, const Path& file, const std::string& key) {
  if (!fs::exists(file)) return false;
  try {
    const Json json = parse_json(read_file(file), file.string());
    if (json.at("key") != key) return false;
    for (size_t m = 0; m < result.models.size(); ++m)
      for (size_t t = 0; t < result.tasks.size(); ++t)
        result.models[m].tasks[t].seconds = json.at("seconds").at(m).at(t).get<std::vector<double>>();
    return true;
  } catch (const std::exception& error) {
    log_warning("'", file.string(), "' is damaged (", error.what(), "); timing again");
    return false;
  }
}

void store_times(const Finetuning& result, const Path& file, const std::string& key) {
  Json seconds = Json::array();
  for (const FinetunedModel& m : result.models) {
    Json& of = seconds.emplace_back(Json::array());
    for (const TaskOutcome& task : m.tasks) of.push_back(task.seconds);
  }
  write_file(file, dump(Json({{"key", key}, {"seconds", seconds}}), 2) + "\n");
}

// Every round times every model once, another one first each time, so that what slows the machine for a while slows all
// of them. One model is in memory at a time.
void time_in_turns(Finetuning& result, const Timed& runs, const std::vector<std::vector<Task>>& tasks) {
  constexpr size_t kRounds = 7;
  const size_t models = runs.size();
  log_info("timing ", counted(int64_t(models), "model"), " in ", kRounds, " rounds");
  for (size_t round = 0; round < kRounds; ++round)
    for (size_t t = 0; t < tasks.size(); ++t)
      for (size_t i = 0; i < models; ++i) {
        const size_t m = (i + round) % models;
        if (!runs[m][t]) continue;
        const double seconds = time_answers(*runs[m][t], tasks[t][0]);
        if (stop_signal()) return;
        result.models[m].tasks[t].seconds.push_back(seconds);
      }
}

// Of the mean over tasks, by round; none where a task was not reached or not timed.
std::vector<double> seconds_by_round(const FinetunedModel& m) {
  size_t rounds = m.tasks.empty() ? 0 : m.tasks[0].seconds.size();
  for (const TaskOutcome& task : m.tasks) rounds = std::min(rounds, task.seconds.size());
  std::vector<double> out(rounds, 0);
  for (const TaskOutcome& task : m.tasks)
    for (size_t round = 0; round < rounds; ++round) out[round] += task.seconds[round] / double(m.tasks.size());
  return out;
}

void summarise(Finetuning& result) {
  const auto average = [&](const FinetunedModel& m, auto&& f) {
    double total = 0;
    int64_t count = 0;
    for (size_t t = 0; t < m.tasks.size(); ++t)
      if (!m.tasks[t].scores.empty()) total += f(t), ++count;
    return count ? total / double(count) : NAN;
  };
  const FinetunedModel& base = result.models[0];
  for (FinetunedModel& m : result.models) {
    m.average = average(m, [&](size_t t) { return m.tasks[t].mean(0); });
    const std::vector<double> seconds = seconds_by_round(m);
    m.sample_seconds = seconds.empty() ? NAN : quantile(seconds, 0.5);
    if (base.parameters == 0 || m.parameters == 0) continue;
    m.prr = base.average > 0 ? prr(m.average, base.average, Better::higher) : NAN;
    m.pcr_all = pcr(double(m.parameters), double(base.parameters));
    m.pcr_embeddings = pcr(double(m.embedding_parameters), double(base.embedding_parameters));
    m.poep = poep(double(m.embedding_parameters), double(m.parameters));
    if (&m != &base) m.speed_up = speed_ratio(seconds, seconds_by_round(base));
  }
}

// Of each metric, the mean over the folds.
template <class Of>
std::vector<double> mean_over(const std::vector<Task>& folds, Of&& of) {
  std::vector<double> out(of(folds[0]).size());
  for (const Task& fold : folds)
    for (size_t i = 0; i < out.size(); ++i) out[i] += of(fold)[i] / double(folds.size());
  return out;
}

}  // namespace

std::optional<Ratio> speed_ratio(const std::vector<double>& seconds, const std::vector<double>& of_base) {
  std::vector<double> logarithms;
  for (size_t round = 0; round < std::min(seconds.size(), of_base.size()); ++round)
    logarithms.push_back(std::log(of_base[round] / seconds[round]));
  if (logarithms.size() < 2) return std::nullopt;
  const Estimate e = paired(logarithms);
  const double half = e.half_width(0.95);
  return Ratio{std::exp(e.value), std::exp(e.value - half), std::exp(e.value + half)};
}

double TaskOutcome::mean(size_t metric) const {
  std::vector<double> values;
  for (const auto& seed : scores) values.push_back(seed[metric]);
  return compare::mean(values);
}
double TaskOutcome::deviation(size_t metric) const {
  std::vector<double> values;
  for (const auto& seed : scores) values.push_back(seed[metric]);
  return compare::deviation(values);
}
std::vector<double> TaskOutcome::by_fold(size_t metric) const {
  const size_t seeds = scores.size() / size_t(folds);
  std::vector<double> out(seeds ? size_t(folds) : 0);
  for (size_t s = 0; s < seeds; ++s)
    for (size_t k = 0; k < out.size(); ++k) out[k] += scores[s * out.size() + k][metric] / double(seeds);
  return out;
}

std::vector<Advantage> advantages(const Finetuning& r, size_t model, size_t task) {
  std::vector<Advantage> out;
  const TaskOutcome& own = r.models[model].tasks[task];
  if (own.scores.empty()) return out;
  const bool higher = r.better[task][0] == Better::higher;
  for (size_t b = 0; b < r.baselines[task].size(); ++b) {
    const auto& [name, scores] = r.baselines[task][b];
    if (std::isnan(scores[0])) continue;
    Advantage of{.method = name, .value = own.mean(0) - scores[0], .half_width = INFINITY};
    if (const std::vector<double> folds = own.by_fold(0); r.folds && folds.size() > 1) {
      std::vector<double> differences;
      for (size_t k = 0; k < folds.size(); ++k)
        differences.push_back(folds[k] - r.fold_baselines[task][b].second[k][0]);
      const Estimate e = paired(differences);
      of.value = e.value, of.half_width = e.half_width(0.95);
    }
    of.worse = higher ? of.value < 0 : of.value > 0;
    out.push_back(of);
  }
  return out;
}

std::vector<std::string> warnings(const Finetuning& r) {
  std::vector<std::string> out;
  for (size_t m = 0; m < r.models.size(); ++m)
    for (size_t t = 0; t < r.tasks.size(); ++t)
      for (const Advantage& a : advantages(r, m, t))
        if (a.worse)
          out.push_back(cat(r.models[m].model.name, " is worse than ", a.method, " on ", r.tasks[t], ": ",
                            r.metrics[t][0], " differs by ", std::round(1e4 * a.value) / 100, " points"));
  return out;
}

Finetuning finetune(const FinetuneRequest& request) {
  check_usage(!request.models.empty() && !request.tasks.empty() && !request.seeds.empty(), "finetune",
              "needs at least one model, one task and one seed");
  check_usage(std::set<int64_t>(request.seeds.begin(), request.seeds.end()).size() == request.seeds.size(), "finetune",
              "seeds repeats a value: the same run would count as another; name each seed once");
  for (const std::string& assignment : request.set)
    for (const char* key : {"train.seed", "from_pretrained", "fresh_weights", "task.fold", "task.folds"})
      check_usage(!assignment.starts_with(cat(key, "=")), "finetune", "--set ", assignment, " has no effect: ",
                  "models, --seeds and --folds say from what, with which seeds and on what each run is trained");
  check_usage(request.folds == 0 || request.folds >= 2, "finetune", "folds are 2 or more, got ", request.folds);
  check_usage(!fs::exists(request.out / "resolved_recipe.yaml"), "finetune", "'", request.out.string(),
              "' holds a training run; give another --out");
  Finetuning result{.seeds = request.seeds, .folds = request.folds};
  const Trials trials(request);
  std::vector<Recipe> recipes;
  for (size_t t = 0; t < request.tasks.size(); ++t) {
    recipes.push_back(trials.read(t, 0, {}));
    check_usage(recipes.back().has_task(), "finetune", "'", request.tasks[t].string(),
                "' has no section task that names examples");
  }
  if (!request.only.empty()) {
    result.complete = train_one(trials, request.only);
    return result;
  }
  std::vector<std::vector<Task>> tasks;  // by task and fold
  for (size_t t = 0; t < request.tasks.size(); ++t) {
    std::vector<Task>& parts = tasks.emplace_back();
    for (int64_t k = 1; k <= trials.folds(); ++k) parts.push_back(read_task(trials.config(recipes[t], k)));
    const Task& task = parts[0];
    result.tasks.push_back(trials.task(t));
    result.majority.push_back(mean_over(parts, [](const Task& of) { return of.majority; }));
    auto& baselines = result.baselines.emplace_back();
    auto& by_fold = result.fold_baselines.emplace_back();
    for (size_t b = 0; b < task.baselines.size(); ++b) {
      baselines.emplace_back(task.baselines[b].first,
                             mean_over(parts, [b](const Task& of) { return values_of(of.baselines[b].second); }));
      by_fold.emplace_back(task.baselines[b].first, std::vector<std::vector<double>>());
      for (const Task& part : parts) by_fold.back().second.push_back(values_of(part.baselines[b].second));
    }
    result.scored_on.push_back(request.folds ? "folds" : task.part);
    std::vector<std::string>& names = result.metrics.emplace_back();
    std::vector<Better>& better = result.better.emplace_back();
    for (const TaskMetric& m : task.metrics) names.push_back(m.name), better.push_back(m.better);
  }
  if (!request.launcher.alone()) train_side_by_side(request, trials);
  Timed timed;
  for (size_t m = 0; m < request.models.size(); ++m) {
    FinetunedModel& row = result.models.emplace_back();
    row.model = request.models[m];
    row.tasks.resize(request.tasks.size());
    auto& first_seed = timed.emplace_back(request.tasks.size());
    for (size_t t = 0; t < request.tasks.size() && !stop_signal(); ++t) {
      row.tasks[t].folds = trials.folds();
      for (const Trial& one : trials.of(m, t)) {
        const TrainRun run = trials.run(one);
        std::optional<Scored> scored = done(run);
        if (!scored) scored = train_and_score(run, tasks[t][size_t(one.fold - 1)], trials.said(one));
        if (!scored) break;
        row.tasks[t].scores.push_back(scored->scores);
        if (one.seed == request.seeds[0] && one.fold == 1) {
          first_seed[t] = run;
          result.runs.emplace_back(
              cat(row.model.name, ", ", result.tasks[t], ", seed ", one.seed, request.folds ? ", fold 1" : ""),
              run.out);
        }
        if (t == 0) row.parameters = scored->parameters, row.embedding_parameters = scored->embedding_parameters;
      }
    }
  }
  const std::string key = key_of(timed);
  if (!stop_signal() && !take_stored_times(result, request.out / "timing.json", key)) {
    time_in_turns(result, timed, tasks);
    if (!stop_signal()) store_times(result, request.out / "timing.json", key);
  }
  result.complete = !stop_signal();
  summarise(result);
  write_file(request.out / "finetuning.json", to_json_text(result));
  write_file(request.out / "finetuning.md", to_markdown(result));
  write_file(request.out / "finetuning.html", to_page(result));
  return result;
}

namespace {

Json json_of(const std::optional<Ratio>& ratio) {
  return ratio ? Json({{"value", ratio->value}, {"low", ratio->low}, {"high", ratio->high}}) : Json();
}

}  // namespace

std::string to_json_text(const Finetuning& r) {
  Json json = {{"complete", r.complete},  {"seeds", r.seeds},       {"folds", r.folds},
               {"warnings", warnings(r)}, {"tasks", Json::array()}, {"models", Json::array()}};
  for (size_t t = 0; t < r.tasks.size(); ++t) {
    Json majority = Json::array();
    for (double v : r.majority[t]) majority.push_back(finite_or_null(v));
    Json baselines = Json::object();
    for (const auto& [name, scores] : r.baselines[t])
      for (double v : scores) baselines[name].push_back(finite_or_null(v));
    json["tasks"].push_back({{"name", r.tasks[t]},
                             {"metrics", r.metrics[t]},
                             {"scored_on", r.scored_on[t]},
                             {"majority", majority},
                             {"baselines", baselines}});
  }
  for (size_t k = 0; k < r.models.size(); ++k) {
    const FinetunedModel& m = r.models[k];
    Json tasks = Json::array();
    for (size_t index = 0; index < m.tasks.size(); ++index) {
      const TaskOutcome& t = m.tasks[index];
      Json seeds = Json::array();
      for (const auto& scores : t.scores) {
        Json one = Json::array();
        for (double v : scores) one.push_back(finite_or_null(v));
        seeds.push_back(one);
      }
      Json over = Json::object();
      for (const Advantage& a : advantages(r, k, index))
        over[a.method] = {{"difference", finite_or_null(a.value)}, {"half_width", finite_or_null(a.half_width)}};
      tasks.push_back({{"scores", seeds}, {"over_baselines", over}, {"sample_seconds", t.seconds}});
    }
    json["models"].push_back({{"name", m.model.name},
                              {"directory", m.model.directory.string()},
                              {"fresh", m.model.fresh},
                              {"parameters", m.parameters},
                              {"embedding_parameters", m.embedding_parameters},
                              {"average", finite_or_null(m.average)},
                              {"prr", finite_or_null(m.prr)},
                              {"pcr_all", finite_or_null(m.pcr_all)},
                              {"pcr_embeddings", finite_or_null(m.pcr_embeddings)},
                              {"poep", finite_or_null(m.poep)},
                              {"sample_seconds", finite_or_null(m.sample_seconds)},
                              {"speed_up", json_of(m.speed_up)},
                              {"tasks", tasks}});
  }
  return dump(json, 2) + "\n";
}

}  // namespace lithe::compare
