// Workshop: chains made and measured.
#include <algorithm>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/base/new_directory.h"
#include "lithe/eval/sentence_rows.h"
#include "lithe/eval/similarity.h"
#include "lithe/fit/workshop.h"
#include "lithe/model/decode_state.h"
#include "lithe/model/exits.h"

namespace lithe::fit {
namespace {

constexpr int64_t kPrompts = 3, kMostBatches = 64;  // of a task's held-out part

Json json_of_use(const Point& p) {
  Json out = {{"parameters", p.parameters},
              {"latency", p.figures.latency},
              {"memory", p.figures.memory},
              {"size", p.figures.size},
              {"loss", p.loss},
              {"loss_change", p.loss_change},
              {"change", p.change},
              {"error", p.error},
              {"ratio", p.ratio},
              {"directory", p.directory.string()}};
  for (const auto& [name, value] : p.scores) out["scores"][name] = value;
  return out;
}

// The mean of what comes of each piece, and its standard error.
std::pair<double, double> mean_of(const std::vector<double>& x) {
  double mean = 0;
  for (const double value : x) mean += value / double(x.size());
  return {mean, standard_error(x, mean)};
}

// A way's losses of each batch, beside those without it.
void worsen(Point& point, const std::vector<double>& with, const std::vector<double>& without) {
  std::vector<double> worse;
  for (size_t i = 0; i < without.size(); ++i) worse.push_back(with[i] - without[i]);
  const auto [mean, error] = mean_of(worse);
  point.loss += mean, point.loss_change += mean, point.change += mean;
  point.error = std::hypot(point.error, error);
}

std::vector<double> losses_of(const TaskAnswers& answers) {
  std::vector<double> out;
  for (const LossSums& batch : answers.batches) out.push_back(batch.mean_nll());
  return out;
}

}  // namespace

void Workshop::keep(const Point& point) const {
  const Path file = work_ / "points" / (point.chain.key() + ".json");
  make_directory(file.parent_path());
  write_file(file, dump(json_of_use(point), 2) + "\n");
}

std::optional<Point> Workshop::kept(const Chain& chain) const {
  const Path file = work_ / "points" / (chain.key() + ".json");
  if (!std::filesystem::exists(file)) return {};
  const Json json = parse_json(read_file(file), file.string());
  Point out{.chain = chain};
  out.directory = std::string(json["directory"]);
  if (!std::filesystem::exists(out.directory / "model.safetensors")) return {};
  out.parameters = json["parameters"];
  out.figures = {json["latency"], json["memory"], json["size"]};
  out.loss = json["loss"], out.loss_change = json["loss_change"], out.ratio = json["ratio"];
  out.change = json["change"], out.error = json["error"];
  if (json.contains("scores"))
    for (const auto& [name, value] : json["scores"].items()) out.scores.emplace_back(name, double(value));
  return out;
}

std::optional<Path> Workshop::numbers(const Chain& chain, const Path& from, bool& stopped) {
  if (chain.format == "f32") return from;
  const Path to = work_ / chain.key();
  if (std::filesystem::exists(to / "model.safetensors")) return to;
  log_info("trying ", chain.name());
  try {
    NewDirectory made(to, "fit", true);
    if (!round_into(from, chain, made.path(), request_.trial_steps)) {
      stopped = true;
      return {};
    }
    made.commit();
  } catch (const Error& error) {
    if (error.code() != ExitCode::memory) throw;  // bits by matrix cannot be so few
    log_warning(chain.name(), " is left out: ", error.what());
    return {};
  }
  return to;
}

std::string Workshop::weights_of(const Chain& chain) const {
  return chain.whole() && chain.format == "f32" ? request_.weights : "";
}

Translated Workshop::translated(const Path& directory, const std::string& weights, const Chain& chain) const {
  return translate_each(load_model(directory, weights, chain.precision()), pairs_, recipe_.translate, chain.way.beams);
}

// How much of each sentence's chrF a chain loses, and how fast it is.
void Workshop::judge_translations(Point& point) {
  const Translated t = translated(point.directory, weights_of(point.chain), point.chain);
  if (chrf_.empty())
    chrf_ = point.chain.key() == Chain().key() ? t.chrf : translated(request_.run, request_.weights, {}).chrf;
  std::vector<double> lost;
  for (size_t i = 0; i < chrf_.size(); ++i) lost.push_back(chrf_[i] - t.chrf[i]);
  std::tie(point.change, point.error) = mean_of(lost);
  point.scores = t.scores;
  point.figures.latency = t.seconds;
  point.figures.memory = t.peak;
}

Tensor Workshop::vectors(const Model& model) const {
  return sentence_rows(model, *data_.lessons.tokenizer, lines_, recipe_.encode.pooling, recipe_.data.sequence_length,
                       recipe_.data.truncation);
}

// How far each text's vector turns.
void Workshop::judge_vectors(Point& point, const Model& model) {
  if (!vectors_.defined()) vectors_ = vectors(before_.model());
  const Tensor similar = row_similarity(vectors_, vectors(model), Similarity::cosine);
  std::vector<double> lost;
  for (int64_t i = 0; i < similar.numel(); ++i) lost.push_back(1 - value_at(similar, i));
  std::tie(point.change, point.error) = mean_of(lost);
  point.scores = {{"cosine", 1 - point.change}};
}

const std::vector<double>& Workshop::losses_without_exits(const Path& directory, const Model& model) {
  std::vector<double>& out = without_exits_[directory];
  if (out.empty())
    out = shape_.continues ? exit_losses(model, data_.batches, "").losses
                           : losses_of(answer(model, task_of_classes()->batches()));
  return out;
}

const std::vector<int32_t>& Workshop::greedy_without_exits(const Path& directory, const Model& model) {
  std::vector<int32_t>& out = greedy_[directory];
  if (out.empty()) out = greedy_tokens(model, data_.batches, "");
  return out;
}

bool Workshop::drafts() const {
  return shape_.continues && data_.lessons.text && before_.model().make_state(1, 1)->truncates();
}

// Null where it is another, or large.
const HeldOutTask* Workshop::task_of_classes() const {
  const auto* task = dynamic_cast<const HeldOutTask*>(data_.lessons.held_out.get());
  if (!task || task->batches().batches_per_epoch() > kMostBatches) return nullptr;
  const TaskType type = task->batches().type();
  return type == TaskType::classification || type == TaskType::tagging ? task : nullptr;
}

bool Workshop::exits() const {
  return !before_.model().exits().empty() &&
         (shape_.continues ? bool(data_.lessons.text) : task_of_classes() != nullptr);
}

void Workshop::judge_exit_of_task(Point& point, const Model& model) {
  const HeldOutTask& task = *task_of_classes();
  const std::string& rule = point.chain.way.exit;
  std::optional<ExitRun> run = exit_run_of(model, rule);
  const TaskAnswers with = answer(model, task.batches(), {}, &*run);
  const std::vector<double>& without = losses_without_exits(point.directory, model);
  heed();
  worsen(point, losses_of(with), without);
  point.ratio = run->mean_layers() / double(model.config().num_hidden_layers);
  if (!point.scores.empty()) point.scores = {{point.scores.front().first, task.first_score(with)}};
  point.scores.emplace_back("mean_layers", run->mean_layers());
  double plain = INFINITY, by_rule = INFINITY;
  for (int turn = 0; turn < 3; ++turn) {
    plain = std::min(plain, measure_use(model, tokens_, shape_).seconds);
    by_rule = std::min(by_rule, measure_use(model, tokens_, shape_, rule).seconds);
  }
  point.figures.latency *= by_rule / plain;
}

// What a way changes of the same weights used as ever.
bool Workshop::judge_way(Point& point, bool& stopped) {
  const Way& way = point.chain.way;
  if (way.beams) {
    UseShape fewer = shape_;
    fewer.beams = way.beams;
    const ModelConfig& config = before_.model().config();
    point.ratio = use_cost(config, fewer).bytes / use_cost(config, shape_).bytes;
    judge_translations(point);
    return true;
  }
  log_info("trying ", point.chain.name());
  const LoadedModel loaded = load_model(point.directory, weights_of(point.chain), point.chain.precision());
  const Model& model = *loaded.model;
  const auto layers = double(model.config().num_hidden_layers);
  if (!shape_.continues) {
    judge_exit_of_task(point, model);
    return true;
  }
  Path drafter;
  if (!way.exit.empty()) {
    const ExitLosses with = exit_losses(model, data_.batches, way.exit);
    worsen(point, with.losses, losses_without_exits(point.directory, model));
    point.ratio = with.mean_layers / layers;
    point.scores.emplace_back("mean_layers", with.mean_layers);
  } else {
    // What a pass over the drafts takes beside one over a token, and what drafting takes.
    const kernels::Cost one = use_cost(model.config(), shape_), all = use_cost(model.config(), shape_, kDrafted + 1);
    const double pass = std::max(all.bytes / one.bytes, 1.0);
    double tokens = 1, drafting = 0;
    const auto taken = [&](const std::vector<int32_t>& drafted) {
      const double agreement = agreement_of(drafted, greedy_without_exits(point.directory, model));
      point.scores.emplace_back("agreement", agreement);
      return tokens_a_pass(agreement, kDrafted);
    };
    if (way.draft == "pruned") {
      const Chain of{.share = way.draft_share, .format = "int8"};
      const auto small = this->point(of, stopped);
      if (!small) return false;
      drafter = small->directory;
      if (!greedy_.contains(drafter)) greedy_without_exits(drafter, *load_model(drafter, "", of.precision()).model);
      tokens = taken(greedy_[drafter]);
      drafting = double(kDrafted) * small->figures.latency / point.figures.latency;
      point.figures.size += small->figures.size;
      point.figures.memory += small->figures.memory;
    } else if (way.draft == "lookup") {
      tokens = lookup_tokens_a_pass(tokens_, kDrafted);
    } else {
      const std::string layer = way.draft.substr(std::string("exit:").size());
      tokens = taken(greedy_tokens(model, data_.batches, "layer:" + layer));
      drafting = double(kDrafted) * std::stod(layer) / layers;
    }
    point.ratio = (pass + drafting) / tokens;
  }
  std::vector<std::vector<int32_t>> prompts;
  const int64_t half = shape_.length / 2;
  for (int64_t i = 0; i < kPrompts && (i + 1) * half <= int64_t(tokens_.size()); ++i)
    prompts.emplace_back(tokens_.begin() + i * half, tokens_.begin() + (i + 1) * half);
  const TokenTimes times = time_tokens(loaded, point.chain.precision(), way, drafter, prompts, shape_.length - half);
  point.figures.latency *= times.by_way / times.plain;
  if (!way.draft.empty()) point.scores.emplace_back("tokens_a_pass", times.tokens_a_pass);
  return true;
}

std::optional<Point> Workshop::point(const Chain& chain, bool& stopped) {
  if (std::optional<Point> there = kept(chain)) return there;
  Point out{.chain = chain};
  if (!chain.way.plain()) {
    std::optional<Point> plain = point(chain.plain(), stopped);
    if (!plain) return {};
    out = *plain;
    out.chain = chain;
    if (!judge_way(out, stopped)) return {};
    keep(out);
    return out;
  }
  const auto from = base(chain, request_.trial_steps, stopped);
  if (!from) return {};
  const auto directory = numbers(chain, *from, stopped);
  if (!directory) return {};
  out.directory = *directory;
  MeasuredModel model(out.directory, weights_of(chain), chain.precision());
  model.judge(data_);
  out.parameters = model.model().parameters().count();
  out.loss = model.loss().mean;
  out.scores = model.scores();
  const Json difference = loss_difference(before_, model);
  out.loss_change = out.change = difference["mean"];
  out.error = difference.contains("standard_error") ? double(difference["standard_error"]) : 0;
  out.figures.size = model.bytes_on_disk();
  if (shape_.translates) {
    judge_translations(out);
  } else {
    const Use use = measure_use(model.model(), tokens_, shape_);
    out.figures.latency = use.seconds, out.figures.memory = use.peak;
    if (!lines_.empty()) judge_vectors(out, model.model());
  }
  keep(out);
  return out;
}

}  // namespace lithe::fit
