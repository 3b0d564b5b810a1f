#include "lithe/compare/finetune.h"

#include <chrono>
#include <cmath>
#include <set>

#include "lithe/base/counted.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/compare/statistics.h"
#include "lithe/eval/task_baselines.h"
#include "lithe/infer/load.h"
#include "lithe/train/resume.h"

namespace lithe::compare {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// What all models share of a task.
struct Task {
  TaskConfig config;
  std::vector<TaskMetric> metrics;
  std::vector<std::string> labels;
  std::vector<Example> scored;  // the test part, else the validation part
  std::string part;
  std::vector<std::pair<std::string, std::vector<double>>> baselines;  // by name: the scores of trivial methods
  std::vector<double> majority;  // the scores of the most frequent label of the training part; NaN without classes
};

Task read_task(const TaskConfig& config) {
  TaskData data = load_task(config);
  Task task{.config = config, .metrics = choose_metrics(config, data.labels).metrics, .labels = data.labels};
  task.part = data.test.empty() ? "validation" : "test";
  task.scored = std::move(data.test.empty() ? data.validation : data.test);
  check_usage(!task.scored.empty(), "finetune", "the task has neither test nor validation examples to score");
  task.majority.assign(task.metrics.size(), NAN);
  for (const TaskBaseline& b : task_baselines(task_type(config), data.train, task.scored, task.labels.size())) {
    auto& [name, scores] = task.baselines.emplace_back(b.name, std::vector<double>());
    for (const Score& s : score_predictions(task.metrics, b.predictions, task.scored, task.labels))
      scores.push_back(s.value);
    if (name == "majority") task.majority = scores;
  }
  return task;
}

struct Scored {
  std::vector<double> scores;
  int64_t parameters = 0, embedding_parameters = 0;
};

LoadedModel load_scored(const TrainRun& run) {
  const bool best = fs::exists(run.out / "best" / "model.safetensors");
  return load_model(run.out, best ? "best" : "", run.recipe.train.precision == "f64" ? "f64" : "f32");
}

TaskBatches batches_of(const TrainRun& run, const Task& task, const LoadedModel& loaded, size_t most) {
  std::vector<Example> examples(task.scored.begin(), task.scored.begin() + long(std::min(most, task.scored.size())));
  return TaskBatches(std::move(examples), task_type(task.config), *loaded.tokenizer, run.recipe.data.sequence_length,
                     run.recipe.train.batch_tokens, 0, false, task_reading(run.recipe));
}

Scored score(const TrainRun& run, const Task& task) {
  const LoadedModel loaded = load_scored(run);
  const TaskAnswers answers = answer(*loaded.model, batches_of(run, task, loaded, task.scored.size()));
  Scored out;
  for (const Score& s : score_predictions(task.metrics, answers.predictions, task.scored, task.labels))
    out.scores.push_back(s.value);
  for (const Parameter& p : loaded.model->parameters().all()) {
    out.parameters += p.master.shape().numel();
    if (p.name.starts_with("embedding.")) out.embedding_parameters += p.master.shape().numel();
  }
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
  const LoadedModel loaded = load_scored(run);
  answer(*loaded.model, batches_of(run, task, loaded, 1));
  const TaskBatches batches = batches_of(run, task, loaded, kMost);
  const auto start = Clock::now();
  answer(*loaded.model, batches);
  return std::chrono::duration<double>(Clock::now() - start).count() / double(batches.examples().size());
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
void time_in_turns(Finetuning& result, const Timed& runs, const std::vector<Task>& tasks) {
  constexpr size_t kRounds = 7;
  const size_t models = runs.size();
  log_info("timing ", counted(int64_t(models), "model"), " in ", kRounds, " rounds");
  for (size_t round = 0; round < kRounds; ++round)
    for (size_t t = 0; t < tasks.size(); ++t)
      for (size_t i = 0; i < models; ++i) {
        const size_t m = (i + round) % models;
        if (!runs[m][t]) continue;
        const double seconds = time_answers(*runs[m][t], tasks[t]);
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

Finetuning finetune(const FinetuneRequest& request) {
  check_usage(!request.models.empty() && !request.tasks.empty() && !request.seeds.empty(), "finetune",
              "needs at least one model, one task and one seed");
  check_usage(std::set<int64_t>(request.seeds.begin(), request.seeds.end()).size() == request.seeds.size(), "finetune",
              "seeds repeats a value: the same run would count as another; name each seed once");
  for (const std::string& assignment : request.set)
    for (const char* key : {"train.seed", "from_pretrained", "fresh_weights"})
      check_usage(!assignment.starts_with(cat(key, "=")), "finetune", "--set ", assignment,
                  " has no effect: ", "models and --seeds say from what, and with which seeds, each run is trained");
  check_usage(!fs::exists(request.out / "resolved_recipe.yaml"), "finetune", "'", request.out.string(),
              "' holds a training run; give another --out");
  Finetuning result{.seeds = request.seeds};
  std::vector<Task> tasks;
  const auto read = [&](const Path& file, const PretrainedModel& model, const std::vector<std::string>& more) {
    std::vector<std::string> set = request.set;
    set.push_back(cat("from_pretrained=", model.directory.string()));
    set.push_back(cat("fresh_weights=", model.fresh ? "true" : "false"));
    set.insert(set.end(), more.begin(), more.end());
    return load_recipe(file, set);
  };
  for (const Path& file : request.tasks) {
    const Recipe recipe = read(file, request.models[0], {});
    check_usage(recipe.has_task(), "finetune", "'", file.string(), "' has no section task that names examples");
    const Task& task = tasks.emplace_back(read_task(recipe.task));
    result.tasks.push_back(file.stem().string());
    result.majority.push_back(task.majority);
    result.baselines.push_back(task.baselines);
    result.scored_on.push_back(task.part);
    std::vector<std::string>& names = result.metrics.emplace_back();
    for (const TaskMetric& m : task.metrics) names.push_back(m.name);
  }
  Timed timed;
  for (const PretrainedModel& model : request.models) {
    FinetunedModel& row = result.models.emplace_back();
    row.model = model;
    row.tasks.resize(request.tasks.size());
    auto& first_seed = timed.emplace_back(request.tasks.size());
    for (size_t t = 0; t < request.tasks.size() && !stop_signal(); ++t)
      for (const int64_t seed : request.seeds) {
        TrainRun run{.out = request.out / "runs" / model.name / result.tasks[t] / cat("seed-", seed),
                     .recipe = read(request.tasks[t], model, {cat("train.seed=", seed)})};
        run.resume = has_begun(run.out);
        std::optional<Scored> scored = stored(run.out / "scores.json", key_of(run));
        if (!scored) {
          log_info("model ", model.name, ", task ", result.tasks[t], ", seed ", seed);
          if (train(run).status != RunStatus::finished || stop_signal()) break;
          scored = score(run, tasks[t]);
          if (stop_signal()) break;
          store(run.out / "scores.json", key_of(run), *scored);
        }
        row.tasks[t].scores.push_back(scored->scores);
        if (seed == request.seeds[0]) first_seed[t] = run;
        if (t == 0) row.parameters = scored->parameters, row.embedding_parameters = scored->embedding_parameters;
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
  Json json = {{"complete", r.complete}, {"seeds", r.seeds}, {"tasks", Json::array()}, {"models", Json::array()}};
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
  for (const FinetunedModel& m : r.models) {
    Json tasks = Json::array();
    for (const TaskOutcome& t : m.tasks) {
      Json seeds = Json::array();
      for (const auto& scores : t.scores) {
        Json one = Json::array();
        for (double v : scores) one.push_back(finite_or_null(v));
        seeds.push_back(one);
      }
      tasks.push_back({{"scores", seeds}, {"sample_seconds", t.seconds}});
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
