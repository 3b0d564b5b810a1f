#include "lithe/compress/prune_run.h"

#include <cmath>

#include "lithe/base/counted.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/new_directory.h"
#include "lithe/base/quiet_log.h"
#include "lithe/base/stop.h"
#include "lithe/compress/receipt.h"
#include "lithe/infer/load.h"
#include "lithe/infer/weights_file.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/model/safetensors.h"
#include "lithe/ops/hard_concrete.h"
#include "lithe/report/page.h"
#include "lithe/train/checkpoint.h"
#include "lithe/train/resume.h"
#include "lithe/train/trainer.h"

namespace lithe {
namespace {

constexpr const char* kGates = "gates";
constexpr const char* kLatency = "latency";

// The recipe of the run that is pruned, for the model in `model`, whose weights it begins with.
Recipe recipe_to_prune(const PruneRequest& request, const Path& model) {
  const Path file = request.model / "resolved_recipe.yaml";
  check_usage(std::filesystem::exists(file), "prune", "'", request.model.string(),
              "' has no resolved_recipe.yaml; give the --out directory of a training run");
  Recipe recipe = read_recipe(to_yaml(stored_recipe(request.model)), file.string(), request.set, true);
  recipe.model = load_config(model / "config.json");
  recipe.from_pretrained = model.string();
  recipe.from_layers = {};
  for (int64_t l = 1; l <= recipe.model.num_hidden_layers; ++l) recipe.from_layers.layers.push_back(l);
  recipe.fresh_weights = false;
  recipe.train.growth = {};
  recipe.train.freeze.clear();
  recipe.train.adapters = {};
  return recipe;
}

// What scores are taken from: the first batches of what the run learns from.
struct PruneLessons {
  TrainingData data;
  std::vector<DeviceBatch> batches;
};
PruneLessons lessons_of(const Recipe& recipe, const Path& directory, const Model& model, int64_t count) {
  const QuietLog quiet;
  PruneLessons out{load_training_data(recipe, load_tokenizers(directory)), {}};
  const int64_t each = out.data.train->batches_per_epoch();
  for (int64_t i = 0; i < std::min(count, each); ++i)
    out.batches.push_back(to_device(out.data.train->batch(0, i), model));
  return out;
}

std::unique_ptr<Model> trainable(const ModelConfig& config, const Path& file) {
  auto model = std::make_unique<Model>(config, ModelOptions{.trainable = true, .initialised = false});
  load_weights(*model, file);
  return model;
}

// A run of `steps` from the weights of `model`; it goes on where it was stopped. False when asked to stop.
bool train_from(const PruneRequest& request, const Path& model, const Path& out, int64_t steps,
                const std::function<void(Recipe&)>& change) {
  Recipe recipe = recipe_to_prune(request, model);
  TrainConfig& train_config = recipe.train;
  train_config.max_steps = steps;
  train_config.max_tokens = 0;
  train_config.num_train_epochs = train_config.max_time = 0;
  train_config.warmup_ratio = 0;
  train_config.warmup_steps = steps / 10;
  train_config.sample_steps = 0;
  train_config.early_stopping_patience = train_config.average_checkpoints = 0;
  change(recipe);
  if (!recipe.fresh_weights)  // which have everything to learn
    train_config.learning_rate = request.learning_rate > 0 ? request.learning_rate : train_config.learning_rate / 5;
  train_config.min_learning_rate = std::min(train_config.min_learning_rate, train_config.learning_rate / 10);
  if (train_config.eval_steps > 0) train_config.eval_steps = std::min(train_config.eval_steps, steps);
  if (!train_config.save_steps || train_config.save_steps > steps)
    train_config.save_steps = std::max<int64_t>(1, steps / 4);
  TrainRun run{.out = out, .recipe = recipe, .resume = has_begun(out), .samples = false};
  log_info("training for ", counted(steps, "step"));
  const QuietLog quiet;
  return train(run).status == RunStatus::finished;
}

// The shape of `model` from random weights, for as many steps as all rounds have, at the run's own learning rate.
bool train_anew(const PruneRequest& request, const Path& model, const Path& out) {
  return train_from(request, model, out, request.rounds * request.train_steps, [](Recipe& recipe) {
    recipe.fresh_weights = true;
    recipe.from_layers = {};
  });
}

Importance random_importance(const std::vector<PruneGroup>& groups, uint64_t seed, int64_t member) {
  Importance out;
  for (const PruneGroup& group : groups) {
    const RandomKey key{
        .seed = seed, .step = uint64_t(member), .purpose = purpose_of("prune." + group.name() + name_of(group.unit))};
    out.emplace_back();
    for (int64_t i = 0; i < group.count; ++i) out.back().push_back(random_uniform(key, uint64_t(i)));
  }
  return out;
}

// spec: prune.random | compression | the best of a pool of random choices, by its loss on a text | TB 6.4.7(2)
PruneKept best_of_pool(const PruneRequest& request, const Model& model, const PruneLessons& lessons, double target,
                       PruneRound& round) {
  PruneKept best;
  double least = INFINITY;
  for (int64_t member = 0; member < request.pool; ++member) {
    check_not_stopped("prune", "nothing was written");
    const Importance importance = random_importance(round.groups, request.seed, member);
    const PruneKept kept = choose_kept(model.config(), round.groups, importance, request, target);
    const double loss = mean_loss(*prune(model, kept), *lessons.data.objective, lessons.batches).mean;
    round.pool.push_back(loss);
    if (loss < least) least = loss, best = kept, round.importance = importance;
  }
  return best;
}

// Gates are learned from the model, and their values at the end multiply what the units add.
Importance learned_gates(const PruneRequest& request, const Path& model_directory, const Path& run, Model& model,
                         const std::vector<PruneGroup>& groups, bool& stopped) {
  std::string units;
  for (const PruneUnit unit : request.units) units += (units.empty() ? "" : ", ") + std::string(name_of(unit));
  stopped = !train_from(request, model_directory, run, request.gate_steps, [&](Recipe& recipe) {
    if (recipe.train.auxiliary_objectives.is_null()) recipe.train.auxiliary_objectives = Node::map();
    recipe.train.auxiliary_objectives.set(kGates, parse_yaml(cat("{type: gates, units: [", units, "]}"), "prune"));
  });
  Importance out;
  if (stopped) return out;
  load_weights(model, run / "model.safetensors");
  const Node options = *recipe_of_run(run).train.auxiliary_objectives.find(kGates);
  const auto number = [&](const char* key, double otherwise) {
    const Node* found = options.find(key);
    return found ? std::stod(found->text()) : otherwise;
  };
  HardConcrete form;
  form.beta = number("beta", form.beta);
  const SafetensorsFile learned(latest_checkpoint(run) / "objective.safetensors");
  for (const PruneGroup& group : groups) {
    const Tensor theta = empty({group.count}, DType::f32);
    learned.read(cat("objective.", kGates, ".", group.name(), ".", name_of(group.unit), ".log_alpha"), theta);
    out.emplace_back();
    for (int64_t i = 0; i < group.count; ++i) {
      const double log_alpha = number("start", 2) + number("rate", 10) * value_at(theta, i),
                   gate = form.at_test(log_alpha);
      out.back().push_back(log_alpha);
      for (Parameter* p : joining(model, group, i)) {
        const auto elements = elements_of(*p, group, i);
        const Slice slice = elements ? *elements : Slice::of(p->axes, {});
        const Tensor numbers = p->numbers(), part = slice.taken(numbers);
        for (int64_t e = 0; e < part.numel(); ++e) set_value(part, e, gate * value_at(part, e));
        slice.put(numbers, part);
        p->assign(numbers);
      }
    }
  }
  return out;
}

Json json_of_round(const PruneRound& round, const PruneRequest& request) {
  Json groups = Json::array();
  for (size_t g = 0; g < round.groups.size(); ++g) {
    const PruneGroup& group = round.groups[g];
    const auto kept = round.kept.find({group.name(), group.unit});
    Json one = {{"group", group.name()},
                {"unit", name_of(group.unit)},
                {"before", group.count},
                {"after", kept == round.kept.end() ? group.count : int64_t(kept->second.size())}};
    if (kept != round.kept.end()) one["kept"] = kept->second;
    if (g < round.importance.size()) one["scores"] = round.importance[g];
    groups.push_back(one);
  }
  Json out = {{"groups", groups},
              {"left", round.left},
              {request.budget + "_before", round.before},
              {request.budget + "_after", round.after},
              {"parameters_before", round.parameters_before},
              {"parameters_after", round.parameters_after}};
  if (!round.pool.empty()) out["pool_losses"] = round.pool;
  if (!round.counted.is_null()) out["counted"] = round.counted;
  return out;
}

// Fails (usage) where no choice keeps the budget, before anything is trained. What is timed is known later.
void check_reachable(const PruneRequest& request) {
  if (request.budget == kLatency) return;
  const ModelConfig config = load_config(request.model / "config.json");
  const Model whole(config, {.device = Device::meta});
  std::vector<std::string> left;
  const std::vector<PruneGroup> groups = prune_groups(whole, request.units, left);
  const double target = request.to * budget_of(whole, request.budget);
  // Layers may have other sizes: those that stay may be the first or the last.
  const auto choose = [&](double slope) {
    Importance importance;
    for (const PruneGroup& group : groups) {
      importance.emplace_back();
      for (int64_t i = 0; i < group.count; ++i) importance.back().push_back(slope * double(i));
    }
    choose_kept(config, groups, importance, request, target);
  };
  try {
    choose(1);
  } catch (const Error&) {
    choose(-1);
  }
}

// One round: scores, choice, and the smaller model with its files in a new directory. False when asked to stop.
bool prune_once(const PruneRequest& request, const Path& from, const std::string& weights, const Path& to,
                const Path& gates_run, double target, Json& result) {
  const Path file = weights_file(from, weights);
  const ModelConfig config = load_config(from / "config.json");
  check_holds_numbers(config, "prune", cat("'", from.string(), "'"));
  const auto model = trainable(config, file);
  PruneRound round;
  round.groups = prune_groups(*model, request.units, round.left);
  round.parameters_before = model->parameters().count();
  const Recipe recipe = recipe_to_prune(request, from);
  if (request.by == "norm") {
    round.importance = norm_importance(*model, round.groups, request.norm);
  } else if (request.by == "gradient") {
    const PruneLessons lessons = lessons_of(recipe, from, *model, request.batches);
    TrainConfig train = recipe.train;
    train.auxiliary_objectives = {};
    const TrainedObjective objective(train, *model);
    round.importance =
        gradient_importance(*model, objective, train, round.groups, lessons.batches, request.across_model);
  } else if (request.by == "activation") {
    const PruneLessons lessons = lessons_of(recipe, from, *model, request.batches);
    round.importance = activation_importance(*model, *lessons.data.objective, round.groups, lessons.batches);
  } else if (request.by == "gates") {
    bool stopped = false;
    round.importance = learned_gates(request, from, gates_run, *model, round.groups, stopped);
    if (stopped) return false;
  }
  const bool timed = request.budget == kLatency;
  if (timed) {
    LatencyChoice choice = choose_kept_by_latency(*model, round.groups, round.importance, request, recipe, target);
    round.kept = std::move(choice.kept);
    round.before = choice.before, round.after = choice.after;
    round.counted = {{"budget", choice.counted}, {"to", choice.share}};
  } else {
    round.before = budget_of(config, request.budget);
    round.kept = request.by == "random"
                     ? best_of_pool(request, *model, lessons_of(recipe, from, *model, request.batches), target, round)
                     : choose_kept(config, round.groups, round.importance, request, target);
  }
  const auto smaller = prune(*model, round.kept);
  if (!timed) round.after = budget_of(smaller->config(), request.budget);
  round.parameters_after = smaller->parameters().count();

  NewDirectory out(to, "prune", true);
  save_config(smaller->config(), out / "config.json");
  save_tokenizers(load_tokenizers(from), out.path());
  save_weights(*smaller, out / "model.safetensors");
  Recipe of_smaller = recipe_to_prune(request, from);
  of_smaller.from_pretrained.clear();
  of_smaller.from_layers = {};
  of_smaller.model = smaller->config();
  write_file(out / "resolved_recipe.yaml", to_yaml(resolved(of_smaller)));
  result = json_of_round(round, request);
  write_file(out / "prune.json", dump(result, 2) + "\n");
  out.commit();
  log_info(round.parameters_before, " parameters became ", round.parameters_after);
  return true;
}

Json settings_of(const PruneRequest& request) {
  std::vector<std::string> units;
  for (const PruneUnit unit : request.units) units.emplace_back(name_of(unit));
  return {{"parent", weights_fingerprint(request.model, request.weights)},
          {"to", request.to},
          {"budget", request.budget},
          {"units", units},
          {"by", request.by},
          {"norm", int(request.norm)},
          {"across", request.across_model ? "model" : "layer"},
          {"batches", request.batches},
          {"pool", request.pool},
          {"multiple", request.multiple},
          {"rounds", request.rounds},
          {"train_steps", request.train_steps},
          {"gate_steps", request.gate_steps},
          {"learning_rate", request.learning_rate},
          {"distil", request.distil},
          {"seed", request.seed},
          {"set", request.set}};
}

}  // namespace

void PruneRequest::validate() const {
  check_usage(to > 0 && to < 1, "prune", "--to must be above 0 and below 1, the part that stays, not ", to);
  check_usage(by != "gates" || !units.count(PruneUnit::hidden), "prune",
              "channels of the rows have no gates of their own; leave hidden out of --units, or give --by norm");
  check_usage(
      by != "random" || budget != kLatency, "prune",
      "the pool of --by random is chosen by a counted budget, and latency is timed; give --by norm, or --budget "
      "memory");
  check_usage(rounds == 1 || train_steps > 0, "prune", "--rounds ", rounds,
              " needs training between them; give --train-steps");
  check_usage(!distil || train_steps > 0, "prune", "--distill is for training after a round; give --train-steps");
  check_usage(!from_scratch || train_steps > 0, "prune",
              "--from-scratch trains for as many steps as the rounds together, and they have none; give --train-steps");
}

bool train_smaller(const PruneRequest& request, const Path& model, const Path& out) {
  return train_from(request, model, out, request.train_steps, [&](Recipe& recipe) {
    if (!request.distil) return;
    if (recipe.train.auxiliary_objectives.is_null()) recipe.train.auxiliary_objectives = Node::map();
    recipe.train.auxiliary_objectives.set(
        "distillation",
        parse_yaml(cat("{type: distillation, teacher: ", dump(Json(request.model.string())), "}"), "prune"));
  });
}

bool prune_run(const PruneRequest& request, const std::function<void(const Path& to)>& companions, Json& result) {
  request.validate();
  NewDirectory::check_place(request.out, "prune", request.overwrite);
  const Path work = beside(request.out, ".rounds");
  const Json settings = settings_of(request);
  const bool keeps = request.train_steps > 0 || request.by == "gates";
  if (keeps && std::filesystem::exists(work / "settings.json")) {
    if (request.overwrite && Json::parse(read_file(work / "settings.json")) != settings)
      std::filesystem::remove_all(work);
    check_usage(
        !std::filesystem::exists(work / "settings.json") || Json::parse(read_file(work / "settings.json")) == settings,
        "prune", "'", work.string(), "' holds rounds of other settings; remove it, give --overwrite, or another --out");
  }
  if (keeps) check_reachable(request);
  struct Removed {
    Path path;
    bool on;
    ~Removed() {
      std::error_code ignored;
      if (on) std::filesystem::remove_all(path, ignored);
    }
  } const removed{work, !keeps};
  make_directory(work);
  write_file(work / "settings.json", dump(settings, 2) + "\n");
  // What is timed is timed against the whole model.
  const double whole =
      request.budget == kLatency ? 1 : budget_of(load_config(request.model / "config.json"), request.budget);
  Path from = request.model;
  std::string weights = request.weights;
  Json rounds = Json::array();
  for (int64_t r = 1; r <= request.rounds; ++r) {
    const Path pruned = work / cat(r), trained = work / cat(r, "-trained");
    Json of_round;
    if (keeps && std::filesystem::exists(pruned / "prune.json")) {
      of_round = Json::parse(read_file(pruned / "prune.json"));
    } else {
      const double target = whole * std::pow(request.to, double(r) / double(request.rounds));
      if (!prune_once(request, from, weights, pruned, work / cat(r, "-gates"), target, of_round)) return false;
    }
    rounds.push_back(of_round);
    from = pruned, weights.clear();
    if (request.train_steps == 0) continue;
    if (!train_smaller(request, pruned, trained)) return false;
    from = trained;
  }
  const Path scratch = request.from_scratch ? work / "from-scratch" : Path();
  if (request.from_scratch && !train_anew(request, work / cat(request.rounds), scratch)) return false;
  NewDirectory out(request.out, "prune", request.overwrite);
  const Path last = work / cat(request.rounds);
  for (const char* name : {"config.json", "resolved_recipe.yaml"}) write_file(out / name, read_file(last / name));
  save_tokenizers(load_tokenizers(last), out.path());
  std::filesystem::copy_file(from / "model.safetensors", out / "model.safetensors");
  companions(out.path());
  result = {{"settings", settings}, {"rounds", rounds}};
  write_file(out / "prune.json", dump(result, 2) + "\n");
  write_file(out / "prune.html", prune_page(result));
  Recipe recipe = recipe_to_prune(request, last);
  const Json receipt = write_receipt({.operation = "prune",
                                      .parent = request.model,
                                      .parent_weights = request.weights,
                                      .child = out.path(),
                                      .recipe = std::move(recipe),
                                      .batches = request.batches,
                                      .settings = settings,
                                      .baseline = request.baseline,
                                      .from_scratch = scratch});
  result["receipt"] = receipt;
  out.commit();
  return true;
}

std::string prune_page(const Json& result) {
  report::Page page("What was taken out", cat("budget: ", std::string(result["settings"]["budget"])), "lithe prune");
  std::map<std::string, std::map<std::string, std::pair<int64_t, int64_t>>>
      groups;  // before of the first, after of the last
  std::vector<std::string> order, kinds;
  for (const Json& round : result["rounds"])
    for (const Json& group : round["groups"]) {
      const std::string name = group["group"], unit = group["unit"];
      if (!groups.count(name)) order.push_back(name);
      if (std::ranges::find(kinds, unit) == kinds.end()) kinds.push_back(unit);
      auto& cell = groups[name][unit];
      if (!cell.first) cell.first = group["before"];
      cell.second = group["after"];
    }
  report::HeatMap map{.title = "What stays",
                      .detail = "full colour: all of it",
                      .row_name = "part",
                      .column_name = "units",
                      .rows = order,
                      .columns = kinds};
  report::Table table{.caption = "Units",
                      .columns = {{"part"}, {"units"}, {"before", true}, {"after", true}, {"stays", true}}};
  for (const std::string& name : order)
    for (const std::string& kind : kinds) {
      const auto found = groups[name].find(kind);
      const bool has = found != groups[name].end();
      const double share = has ? double(found->second.second) / double(found->second.first) : 0;
      map.values.push_back(share);
      if (has)
        table.rows.push_back({name, kind, report::Cell::integer(found->second.first),
                              report::Cell::integer(found->second.second), report::Cell::share(share)});
    }
  const Json &first = result["rounds"].front(), &last = result["rounds"].back();
  page.tiles({{"parameters before", cat(int64_t(first["parameters_before"])), ""},
              {"parameters after", cat(int64_t(last["parameters_after"])), ""},
              {"chosen by", std::string(result["settings"]["by"]), ""}});
  page.section("By part");
  page.chart(map);
  page.table(table);
  std::vector<std::string> left = last["left"];
  if (!left.empty()) page.notice(report::Tone::plain, "What stays whole", left);
  return page.html();
}

}  // namespace lithe
