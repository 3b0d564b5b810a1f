#include "lithe/compress/measured_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lithe/base/quiet_log.h"
#include "lithe/base/stop.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/infer/weights_file.h"

namespace lithe {
namespace {

constexpr int64_t kTurns = 5, kNewTokens = 48, kMostScored = 64;  // batches of a task's held-out part
constexpr double kSecondsOfTurns = 30;

using MeasureClock = std::chrono::steady_clock;
double seconds_from(MeasureClock::time_point start) {
  return std::chrono::duration<double>(MeasureClock::now() - start).count();
}

int32_t likeliest(const Model& model, const Rows& rows) {
  const Tensor logits = model.logits(rows, {rows.sequences.rows() - 1}).value();
  int64_t best = 0;
  for (int64_t v = 1; v < logits.numel(); ++v)
    if (value_at(logits, v) > value_at(logits, best)) best = v;
  return int32_t(best);
}

}  // namespace

double standard_error(const std::vector<double>& x, double mean) {
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean);
  const auto n = double(x.size());
  return n > 1 ? std::sqrt(squares / (n - 1) / n) : 0;
}

MeasuringData measuring_data(const Recipe& recipe, const Tokenizers& tokenizers, int64_t first, int64_t count,
                             const std::vector<std::string>& text) {
  Recipe read = recipe;
  if (!text.empty()) {
    check_usage(!recipe.has_task() && !recipe.has_translation(), "receipt",
                "--text is for models of text; a task's model and a translator are measured on their validation part");
    read.data.files = text;
    read.data.validation_files.clear();
    read.data.validation_fraction = 0;
    read.train.carry_state = false;
  }
  const auto load = [&] {
    const QuietLog quiet;  // the training that came before has said what the texts are
    return load_training_data(read, tokenizers);
  };
  MeasuringData out{.lessons = load()};
  const TrainingData& lessons = out.lessons;
  const BatchSource& source = lessons.held_out ? lessons.held_out->batches() : *lessons.train;
  out.name = !text.empty() ? "given text" : lessons.held_out ? "held-out part" : "training part";
  const int64_t all = source.batches_per_epoch(), taken = std::min(count, all);
  for (int64_t i = 0; i < taken; ++i) out.batches.push_back(source.batch(0, (first + i) % all));
  if (lessons.objective->predicts_next() && tokenizers.tokenizer->width() == 1 && !recipe.has_translation()) {
    const Batch& batch = out.batches.front();
    out.prompt.assign(batch.tokens.begin(), batch.tokens.begin() + std::min<int64_t>(batch.offsets[1], 8));
  }
  return out;
}

double Spread::median() const {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? 0 : sorted[sorted.size() / 2];
}

Json Spread::json() const {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"median", median()}, {"least", *least}, {"most", *most}, {"turns", values.size()}};
}

MeasuredModel::MeasuredModel(const Path& directory, const std::string& weights, const std::string& precision)
    : directory_(directory),
      weights_(weights),
      precision_(precision),
      bytes_(int64_t(std::filesystem::file_size(weights_file(directory, weights)))),
      fingerprint_(weights_fingerprint(directory, weights)) {
  const LoadedModel outline = outline_model(directory, weights, precision);
  parameters_ = outline.model->parameters().count();
  bytes_in_memory_ = outline.model->parameters().bytes();
}

MeasuredModel::MeasuredModel(std::unique_ptr<Model> model, const Path& file)
    : model_(std::move(model)),
      parameters_(model_->parameters().count()),
      bytes_in_memory_(model_->parameters().bytes()),
      bytes_(int64_t(std::filesystem::file_size(file))) {}

const Model& MeasuredModel::model() const {
  if (!model_) model_ = load_model(directory_, weights_, precision_).model;
  return *model_;
}

void MeasuredModel::rest() {
  if (!directory_.empty()) model_.reset();
}

void MeasuredModel::judge(const MeasuringData& data) {
  model();
  const int64_t before = ledger(Device::cpu).current();
  ledger(Device::cpu).reset_peak();
  losses_.clear();
  nll_ = 0, labels_ = 0;
  for (const Batch& batch : data.batches) {
    check_not_stopped("receipt", "nothing was written");
    const LossSums sums = evaluate_batch(model(), data.objective(), to_device(batch, model()));
    losses_.push_back(sums.mean_nll());
    nll_ += sums.nll;
    labels_ += sums.labels;
  }
  peak_ = std::max(peak_, model().parameters().bytes() + ledger(Device::cpu).peak() - before);
  const auto* task = dynamic_cast<const HeldOutTask*>(data.lessons.held_out.get());
  if (!task || task->batches().batches_per_epoch() > kMostScored) return;
  examples_ = int64_t(task->batches().examples().size());
  if (const auto scores = task->score(model())) scores_ = scores->metrics;
}

void MeasuredModel::time(const MeasuringData& data) {
  model();
  const int64_t before = ledger(Device::cpu).current();
  ledger(Device::cpu).reset_peak();
  const DeviceBatch batch = to_device(data.batches.front(), model());
  const auto start = MeasureClock::now();
  evaluate_batch(model(), data.objective(), batch);
  rows_.values.push_back(double(batch.input.rows()) / seconds_from(start));
  peak_ = std::max(peak_, model().parameters().bytes() + ledger(Device::cpu).peak() - before);
  if (!data.prompt.empty()) decode(data.prompt);
}

// As many tokens of every model, also where one would end its text.
void MeasuredModel::decode(const std::vector<int32_t>& prompt) {
  const auto begun = int64_t(prompt.size()), limit = model().position_limit();
  const int64_t tokens = limit ? std::min(kNewTokens, limit - begun) : kNewTokens;
  if (tokens < 2) return;
  const NoGrad no_grad;
  const int64_t before = ledger(Device::cpu).current();
  ledger(Device::cpu).reset_peak();
  const auto state = model().make_state(1, begun + tokens);
  const auto next = [&](const std::vector<int32_t>& ids) {
    Pass pass;
    const auto count = int64_t(ids.size());
    const Rows rows =
        model().run({tensor_of({count}, ids), model().continue_sequences(*state, {count})}, pass, state.get());
    return likeliest(model(), rows);
  };
  int32_t token = next(prompt);
  const auto start = MeasureClock::now();
  for (int64_t i = 0; i < tokens; ++i) token = next({token});
  const double seconds = seconds_from(start);
  tokens_.values.push_back(double(tokens) / seconds);
  seconds_.values.push_back(seconds / double(tokens));
  peak_ = std::max(peak_, model().parameters().bytes() + ledger(Device::cpu).peak() - before);
}

double MeasuredModel::latency() const { return seconds_.values.empty() ? 1 / rows_.median() : seconds_.median(); }

MeanLoss MeasuredModel::loss() const {
  const double mean = nll_ / double(std::max<int64_t>(labels_, 1));
  return {mean, standard_error(losses_, mean), labels_};
}

Json MeasuredModel::json() const {
  Json out = {{"parameters", parameters_}, {"bytes_on_disk", bytes_}};
  if (fingerprint_) out["weights"] = cat(fingerprint_);
  if (losses_.empty()) return out;
  const MeanLoss loss = this->loss();
  out["peak_memory_bytes"] = peak_;
  out["loss"] = {{"mean", loss.mean}, {"labels", loss.labels}};
  if (losses_.size() > 1) out["loss"]["standard_error"] = loss.error;
  for (const auto& [name, value] : scores_) {
    out["scores"][name] = {{"mean", value}, {"examples", examples_}};
    // A share of examples, each right or wrong.
    if (name == "accuracy" && examples_ > 1)
      out["scores"][name]["standard_error"] = std::sqrt(value * (1 - value) / double(examples_ - 1));
  }
  if (!rows_.values.empty()) out["forward_rows_per_second"] = rows_.json();
  if (!tokens_.values.empty()) {
    out["decode_tokens_per_second"] = tokens_.json();
    out["decode_seconds_per_token"] = seconds_.json();
  }
  return out;
}

Json loss_difference(const MeasuredModel& before, const MeasuredModel& after) {
  std::vector<double> apart;
  double mean = 0;
  for (size_t i = 0; i < before.losses().size(); ++i) {
    apart.push_back(after.losses()[i] - before.losses()[i]);
    mean += apart.back();
  }
  mean /= double(apart.size());
  Json out = {{"mean", mean}};
  if (apart.size() > 1) out["standard_error"] = standard_error(apart, mean);
  return out;
}

bool large_together(const std::vector<MeasuredModel*>& models) {
  constexpr int64_t kMostTogether = int64_t(256) << 20;
  int64_t bytes = 0;
  for (const MeasuredModel* model : models) bytes += model->bytes_in_memory();
  return bytes > kMostTogether;
}

void time_in_turns(const std::vector<MeasuredModel*>& models, const MeasuringData& data) {
  const auto start = MeasureClock::now();
  const bool apart = large_together(models);
  for (int64_t turn = 0; turn < kTurns; ++turn)
    for (MeasuredModel* model : models) {
      if (turn > 0 && seconds_from(start) > kSecondsOfTurns) return;
      check_not_stopped("receipt", "nothing was written");
      model->time(data);
      if (apart) model->rest();
    }
}

}  // namespace lithe
