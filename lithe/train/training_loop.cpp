#include "lithe/train/training_loop.h"

#include <cmath>

#include "lithe/base/counted.h"
#include "lithe/base/deferred_stop.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/infer/adapter.h"
#include "lithe/infer/generate.h"
#include "lithe/infer/weights_file.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/model/adapter_layout.h"
#include "lithe/model/initial_weights.h"
#include "lithe/model/safetensors.h"
#include "lithe/parallel/gather.h"
#include "lithe/parallel/job.h"
#include "lithe/train/growth.h"
#include "lithe/train/resume.h"

namespace lithe {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// The averages of the weights stand in their place while this lives, if there are averages.
class TrainingLoop::Averaged {
 public:
  explicit Averaged(AdamW& optimizer) : optimizer_(optimizer) { exchange(); }
  ~Averaged() { exchange(); }

 private:
  AdamW& optimizer_;
  void exchange() {
    if (optimizer_.averages()) optimizer_.exchange();
  }
};

TrainingLoop::TrainingLoop(TrainRun run, TrainingData data, Plan plan)
    : run_(std::move(run)), data_(std::move(data)), plan_(std::move(plan)), config_(run_.recipe.train) {
  integers_ = integers_under_adapters(run_.recipe);
  make(0);
  const TrainConfig& c = config_;
  total_steps_ = c.total_steps(data_.train->batches_per_epoch());
  check_usage(c.growth.steps.empty() || !total_steps_ || c.growth.steps.back() < total_steps_, "train",
              "growth.steps has ", c.growth.steps.empty() ? 0 : c.growth.steps.back(), ", and the run ends after step ",
              total_steps_, "; let it grow before, or run longer");
  eval_steps_ = c.eval_steps >= 0
                    ? c.eval_steps
                    : std::max<int64_t>(1, data_.train->batches_per_epoch() / c.gradient_accumulation_steps);
  const int64_t warmup = c.warmup_steps ? c.warmup_steps : int64_t(std::llround(c.warmup_ratio * double(total_steps_)));
  schedule_ = {.type = c.lr_scheduler_type,
               .peak = c.learning_rate,
               .floor = c.min_learning_rate,
               .warmup = warmup,
               .total = total_steps_,
               .decay_ratio = c.decay_ratio,
               .restarts = c.num_cycles};
}

void TrainingLoop::begin(const Path& checkpoint) {
  if (!checkpoint.empty()) {
    check_base(read_state(checkpoint));
    load_integers(model_->parameters(), integers_);
    load(checkpoint);
    if (state_.threads != threads())
      log_warning("the checkpoint was made with ", counted(state_.threads, "thread"), ", this run uses ", threads(),
                  ": results will differ in the last bits");
    check_usage(
        state_.data_fingerprint == data_.fingerprint, "resume",
        "the data or the run's tokenizer are not those this run began with; bring the files of sections data and task, "
        "and tokenizer.json in --out, back to what they were, or choose another --out");
    saved_step_ = state_.step;
  } else {
    const bool begins = !run_.recipe.from_pretrained.empty() && !run_.recipe.fresh_weights;
    if (begins) {
      const Path weights = Path(run_.recipe.from_pretrained) / "model.safetensors";
      if (run_.recipe.from_layers.any())
        load_layers(*model_, weights, run_.recipe.from_layers);
      else
        load_backbone(*model_, weights, !run_.recipe.has_task());
    }
    for (const auto& [part, run] : run_.recipe.pretrained_parts.entries())
      load_part(*model_, part, Path(run.text()) / "model.safetensors");
    if (adapters_ && begins) adapters_->begin();
    rounded_->begin();
    if (!integers_.names.empty()) state_.base_fingerprint = weights_fingerprint(run_.recipe.from_pretrained, "");
  }
  state_.threads = threads();
  state_.data_fingerprint = data_.fingerprint;
  elapsed_before_ = state_.elapsed;
  start_ = Clock::now();
}

void TrainingLoop::check_base(const TrainState& state) const {
  const std::string& base = run_.recipe.from_pretrained;
  check_usage(!state.base_fingerprint || weights_fingerprint(base, "") == state.base_fingerprint, "resume", "'", base,
              "/model.safetensors' is not the file of integer weights that this run's adapters are trained over "
              "(checksum ",
              state.base_fingerprint, "); bring it back, or choose another --out");
}

void TrainingLoop::extend(const std::string& difference) const {
  check_usage(!total_steps_ || total_steps_ >= state_.step, "resume", difference, ": step ", total_steps_,
              " is the last then, and the checkpoint is after step ", state_.step, "; choose a later end");
  const int64_t next = state_.step + 1, last = total_steps_ ? total_steps_ : next;
  log_info(difference, ": going on after step ", state_.step, " to ", total_steps_ ? cat("step ", last) : "no end",
           "; learning rate (", schedule_.type, ", warm-up ", schedule_.warmup, " steps) ", schedule_.at(next),
           " at step ", next, ", ", schedule_.at((next + last) / 2), " at step ", (next + last) / 2, ", ",
           schedule_.at(last), " at step ", last);
}

TrainResult TrainingLoop::go() {
  running_ = true;
  const bool resumed = saved_step_ >= 0, speaks = speaks_for_job();
  if (resumed) {
    log_info("resuming after step ", state_.step);
    if (speaks) publish(checkpoint_path(run_.out, state_.step));  // a kill may have come in between
  }
  if (speaks) write_result(run_.out, RunStatus::running, so_far(), "");
  if (speaks) log_.emplace(run_.out, resumed ? &state_ : nullptr, total_steps_);
  if (run_.initialise) {
    save();
    TrainResult result = so_far();
    result.status = RunStatus::initialised;
    return result;
  }
  if (!everywhere(!log_ || !log_->set_aside())) save();
  interval_start_ = start_;
  bool open = duties(false);
  while (open && !done()) {
    if (config_.growth.stage(state_.step) > stage_) grow();
    if (!step()) continue;  // rolled back
    open = duties(false);
    if (open && config_.save_steps && state_.step % config_.save_steps == 0) {
      state_.rollback_step = state_.step;
      save();
    }
    if (open && !report_step()) told_to_stop_ = true, open = false;
  }
  if (open && state_.interval_steps) log_interval();  // a run that the clock ends
  if (saved_step_ != state_.step) save();             // before the last evaluation, which may fail
  const uint64_t logged = state_.metrics_bytes + state_.samples_bytes;
  open = open && duties(true);
  if (!everywhere(state_.metrics_bytes + state_.samples_bytes == logged)) save();
  if (speaks && optimizer_->averages() && (open || done()) && state_.step > 0) {
    const Averaged averaged(*optimizer_);
    make_directory(run_.out / "averaged");
    save_model(run_.out / "averaged" / "model.safetensors");
  }
  if (speaks && config_.average_checkpoints && (open || done()))
    average_checkpoints(run_.out, config_.average_checkpoints);
  TrainResult result = so_far();
  const bool stopped = told_to_stop_ ? !done() : stopping() && !(open && done());
  result.status = stopped ? RunStatus::stopped : RunStatus::finished;
  result.signal = stopped && !told_to_stop_ ? stopping() : 0;
  return result;
}

bool TrainingLoop::report_step() {
  if (!run_.on_step) return true;
  TrainStep step{.step = state_.step,
                 .total_steps = total_steps_,
                 .tokens = state_.tokens,
                 .loss = state_.last_loss,
                 .learning_rate = schedule_.at(state_.step),
                 .gradient_norm = last_norm_,
                 .seconds = elapsed()};
  if (state_.evaluated_step == state_.step) step.eval_loss = state_.last_eval_loss;
  return run_.on_step(step);
}

TrainResult TrainingLoop::so_far() const {
  TrainResult result;
  result.steps = state_.step;
  result.tokens = state_.tokens;
  result.final_loss = state_.last_loss;
  result.eval_loss = state_.last_eval_loss;
  result.best_eval_loss = state_.best_loss;
  result.best_step = state_.best_step;
  if (data_.held_out && state_.best_step >= 0) {
    const HeldOut::BestBy by = data_.held_out->best_by();
    result.best_by = by.name;
    result.best_value = by.value(state_.best_score);
  }
  result.metrics = metrics_;
  result.averaged = config_.average_checkpoints;
  result.overflowed = state_.overflowed_steps;
  result.perplexity = data_.objective->predicts_vocabulary();
  result.seconds = elapsed();
  result.planned = plan_.memory;
  result.measured = memory_peak(Device::cpu);
  return result;
}

bool TrainingLoop::only_begins() const {
  const Recipe& r = run_.recipe;
  return run_.initialise && r.from_pretrained.empty() && r.pretrained_parts.entries().empty() &&
         !config_.adapters.on() && !config_.rounding.learns_steps() && config_.auxiliaries().empty() && !data_.lanes &&
         job().size() == 1;
}

ModelOptions TrainingLoop::model_options() const {
  return {.device = only_begins() ? Device::meta : Device::cpu,
          .dtype = config_.parameter_dtype(),
          .compute = run_.initialise ? config_.parameter_dtype() : config_.compute(),
          .seed = uint64_t(config_.seed),
          .trainable = true,
          .integers = &integers_.names,
          .frozen = config_.freeze};
}

void TrainingLoop::make(int64_t stage) {
  stage_ = stage;
  shards_.reset();
  optimizer_.reset();
  adapters_.reset();
  rounded_.reset();
  objective_.reset();
  carried_.reset();
  model_ = make_model(config_of_stage(run_.recipe.model, config_.growth, stage), model_options(), config_, job().rank(),
                      job().size());
  objective_ = std::make_unique<TrainedObjective>(config_, *model_);
  rounded_ = std::make_unique<RoundedWeights>(*model_, config_.rounding, objective_->parameters());
  check_usage(config_.growth.steps.empty() || !objective_->parameters().count(), "train",
              "growth makes the model wider or deeper, and the parameters of auxiliary_objectives do not grow with it; "
              "leave one of both out");
  if (config_.adapters.on()) {
    adapters_ = std::make_unique<Adapters>(*model_, config_.adapters, objective_->parameters(), uint64_t(config_.seed));
    adapters_->begin();
  }
  const std::vector<Parameters*> parameters{&model_->parameters(), &objective_->parameters()};
  const Division* const division = model_->division();
  const Group copies = division ? division->layout().data() : Group{&job(), job().rank(), job().size()};
  ranks_ = std::make_unique<RankSum>(copies.with, copies.rank, copies.size, parameters, config_.parallel);
  optimizer_ = std::make_unique<AdamW>(parameters, config_, !run_.initialise, ranks_.get());
  shards_ = ShardedWeights::of(*model_, objective_->parameters(), *ranks_);
  model_->set_recompute(config_.gradient_checkpointing);
  if (data_.lanes) carried_.emplace(*model_, data_.lanes->count, data_.lanes->longest);
}

void TrainingLoop::load(const Path& checkpoint) {
  if (const int64_t stage = config_.growth.stage(step_of(checkpoint) - 1); stage != stage_) make(stage);
  state_ = load_checkpoint(checkpoint, *model_, *optimizer_, carried(), &objective_->parameters());
  if (config_.rounding.learns_steps()) rounded_->refresh();
}

void TrainingLoop::grow() {
  const std::unique_ptr<Model> before = std::move(model_);
  const std::unique_ptr<RankSum> ranks = std::move(ranks_);
  const std::unique_ptr<AdamW> moments = std::move(optimizer_);
  make(stage_ + 1);
  grow_to_stage(*before, *moments, *model_, *optimizer_, config_, stage_);
  log_info("after step ", state_.step, " the model grows to ", model_->config().num_hidden_layers, " layers of ",
           model_->config().hidden_size, " channels, from ", before->parameters().count(), " to ",
           model_->parameters().count(), " parameters");
  std::error_code ignored;
  if (speaks_for_job()) std::filesystem::remove_all(run_.out / "best", ignored);
  state_.best_step = -1;
  state_.evaluations_without_better = 0;
  state_.recent_losses.clear();
}

void TrainingLoop::publish(const Path& checkpoint) const {
  if (!config_.growth.steps.empty()) save_config(model_->config(), run_.out / "config.json");
  publish_weights(run_.out, checkpoint);
  if (adapters_ || config_.rounding.learns_steps()) save_model(run_.out / "model.safetensors");
  if (adapters_) adapters_->save(run_.out / "adapter", adapter_base());
}

// The weights that the adapters began from, as they were then; empty: no file has just these.
std::string TrainingLoop::adapter_base() const {
  const Path earlier = run_.out / "adapter" / "adapter_model.safetensors";
  if (std::filesystem::exists(earlier)) {
    const SafetensorsFile file(earlier);
    const auto base = file.metadata().find(kAdapterBase);
    return base == file.metadata().end() ? "" : base->second;
  }
  const Recipe& r = run_.recipe;
  if (r.from_pretrained.empty() || r.fresh_weights || r.from_layers.any() || !r.pretrained_parts.entries().empty())
    return "";
  return adapter_base_checksum(r.from_pretrained, "");
}

// What runs without adapters predict alike with.
void TrainingLoop::save_model(const Path& file) const {
  if (adapters_)
    adapters_->save_merged(file);
  else if (config_.rounding.learns_steps())
    rounded_->save(file);
  else
    save_weights(*model_, *ranks_, file);
}

bool TrainingLoop::done() const {
  if (total_steps_ && state_.step >= total_steps_) return true;
  const int64_t patience = config_.early_stopping_patience;
  if (patience && state_.evaluations_without_better >= patience) return true;
  return job().size() > 1 ? agreed_late_ : late();
}

bool TrainingLoop::late() const { return config_.max_time > 0 && elapsed() >= 60 * config_.max_time; }

int TrainingLoop::stopping() const { return job().size() > 1 ? agreed_signal_ : stop_signal(); }

void TrainingLoop::agree() {
  if (job().size() == 1) return;
  const auto all = gather<int>(job(), {stop_signal(), late()});
  agreed_late_ = all[0][1];
  for (const std::vector<int>& one : all) agreed_signal_ = std::max(agreed_signal_, one[0]);
}

bool TrainingLoop::answers() const {
  if (speaks_for_job()) return false;
  return shards_ || (model_->division() && model_->division()->layout().data().first());
}

bool TrainingLoop::everywhere(bool mine) const {
  if (job().size() == 1) return mine;
  bool all = true;
  for (const std::vector<int>& one : gather<int>(job(), {mine})) all = all && one[0];
  return all;
}

std::vector<Batch> TrainingLoop::next_batches() {
  const int64_t count = config_.gradient_accumulation_steps, first = ranks_->first_of(ranks_->rank(), count),
                last = ranks_->first_of(ranks_->rank() + 1, count);
  if (!prefetch_ || prefetched_ != state_.micro_batches) {
    prefetch_.reset();
    const BatchSource& source = *data_.train;
    const auto own = [&source, count, first, last, skipped = state_.skipped, number = state_.micro_batches,
                      index = int64_t(0)](int64_t, int64_t) mutable {
      for (const int64_t per_epoch = source.batches_per_epoch();; ++number, index = (index + 1) % count) {
        while (skipped.count(number)) ++number;
        if (index < first || index >= last) continue;
        index = (index + 1) % count;
        const int64_t wanted = number++;
        return source.batch(wanted / per_epoch, wanted % per_epoch);
      }
    };
    prefetch_ = std::make_unique<Prefetcher>(own, INT64_MAX, 0, 0);
  }
  std::vector<Batch> out;
  for (int64_t i = first; i < last; ++i) out.push_back(prefetch_->next());
  for (int64_t i = 0; i < count; ++i, ++state_.micro_batches)
    while (state_.skipped.count(state_.micro_batches)) ++state_.micro_batches;
  prefetched_ = state_.micro_batches;
  return out;
}

bool TrainingLoop::step() {
  const int64_t number = state_.step + 1, first_batch = state_.micro_batches;
  std::vector<DeviceBatch> own;
  int64_t rows = 0;
  for (const Batch& batch : next_batches()) {
    own.push_back(to_device(batch, *model_));
    rows += own.back().input.rows();
  }
  StepBatches batches{.own = own,
                      .first = ranks_->first_of(ranks_->rank(), config_.gradient_accumulation_steps),
                      .count = config_.gradient_accumulation_steps};
  const auto sizes = gather<int64_t>(job(), {labels_of(own), rows});
  rows = 0;
  for (const std::vector<int64_t>& of_rank : sizes) batches.labelled += of_rank[0], rows += of_rank[1];
  const int64_t holders = model_->division() ? model_->division()->layout().model().size : 1;  // of the same batches
  batches.labelled /= holders, rows /= holders;
  const LossScaling& scaling = config_.loss_scaling;
  const double factor = !scaling.on() ? 1 : state_.loss_scale > 0 ? state_.loss_scale : scaling.initial;
  const InBackward in_backward{*optimizer_, steps_of_moments(config_.growth, number), schedule_.at(number)};
  const StepLosses losses = accumulate_gradients(*model_, *objective_, batches, config_, number, carried(), factor,
                                                 ranks_.get(), &in_backward);
  const LossSums& sums = losses.objective;
  const double norm = optimizer_->gradient_norm(model_->division()) / factor,
               loss = sums.loss / double(std::max<int64_t>(sums.labels, 1));
  const bool overflowed = scaling.type == "dynamic" && std::isfinite(loss) && !std::isfinite(norm) && factor > 1;
  if (overflowed && state_.overflowed_steps == 0)
    log_warning("step ", number, ": gradients overflow with the loss times ", factor,
                "; such steps change nothing and halve the factor; result.json and metrics.jsonl count them");
  else if (overflowed)
    log_debug("step ", number, ": gradients overflow with the loss times ", factor, "; it changes nothing");
  else if (!std::isfinite(loss) || !std::isfinite(norm))
    trace_divergence(batches, number, first_batch, loss, norm);
  if (const std::optional<double> limit = spike(loss)) {
    roll_back({.step = state_.rollback_step,
               .at = number,
               .loss = loss,
               .limit = *limit,
               .first_batch = first_batch,
               .last_batch = state_.micro_batches - 1});
    return false;
  }
  if (overflowed)
    optimizer_->drop_gradients();
  else
    optimizer_->step(in_backward.step, in_backward.learning_rate, norm, factor);
  if (optimizer_->averages()) optimizer_->average(number);
  if (scaling.on()) scale_loss(factor, overflowed);
  state_.last_loss = loss;
  last_norm_ = norm;
  state_.step = number;
  state_.tokens += rows;
  interval_tokens_ += rows;
  state_.interval_loss += sums.loss;
  state_.interval_labels += sums.labels;
  for (const auto& [name, value] : losses.auxiliary) state_.interval_auxiliary[name] += value;
  for (const auto& [key, s] : losses.statistics) state_.interval_statistics[key].add(s.means(), s.weight);
  if (overflowed)
    ++state_.interval_overflows;
  else
    state_.interval_norm += norm;
  ++state_.interval_steps;
  watch(loss);
  if (number % config_.logging_steps == 0 || number == total_steps_) log_interval();
  return true;
}

// spec: hpc.mixed | training | bf16 rows, products and caches with f32 masters and sums; the loss scaled, dynamically:
// a step whose gradients overflow is left out | TB 6.4.9
void TrainingLoop::scale_loss(double factor, bool overflowed) {
  state_.loss_scale = factor;
  if (config_.loss_scaling.type == "fixed") return;
  state_.overflowed_steps += overflowed;
  state_.good_steps = overflowed ? 0 : state_.good_steps + 1;
  if (overflowed) state_.loss_scale = factor / 2;
  if (state_.good_steps < config_.loss_scaling.growth_interval) return;
  state_.loss_scale = 2 * factor;
  state_.good_steps = 0;
}

void TrainingLoop::log_interval() {
  const double seconds = seconds_since(interval_start_), tokens = double(interval_tokens_);
  const int64_t taken = state_.interval_steps - state_.interval_overflows;
  for (auto& [name, sum] : state_.interval_auxiliary) sum /= double(state_.interval_steps);
  if (log_)
    log_->interval({.step = state_.step,
                    .tokens = state_.tokens,
                    .epoch = double(state_.micro_batches) / double(data_.train->batches_per_epoch()),
                    .loss = state_.interval_loss / double(std::max<int64_t>(state_.interval_labels, 1)),
                    .learning_rate = schedule_.at(state_.step),
                    .gradient_norm = state_.interval_norm / double(std::max<int64_t>(taken, 1)),
                    .overflowed_steps = state_.overflowed_steps,
                    .auxiliary = state_.interval_auxiliary,
                    .statistics = state_.interval_statistics,
                    .tokens_per_second = tokens / seconds,
                    .step_seconds = seconds / double(state_.interval_steps),
                    .elapsed = elapsed()},
                   state_);
  state_.interval_loss = state_.interval_norm = 0;
  state_.interval_auxiliary.clear();
  state_.interval_statistics.clear();
  state_.interval_labels = state_.interval_steps = state_.interval_overflows = interval_tokens_ = 0;
  interval_start_ = Clock::now();
}

bool TrainingLoop::duties(bool final) {
  agree();
  if (stopping()) return false;
  const DeferredStop deferred(shards_ || model_->division());
  const TrainConfig& c = config_;
  const auto due = [&](int64_t every, int64_t last) {
    return last < state_.step && (final || (every && state_.step % every == 0));
  };
  if (data_.held_out && due(eval_steps_, state_.evaluated_step) && !evaluate()) return false;
  if (run_.samples && due(c.sample_steps, state_.sampled_step)) {
    const GenerateConfig& config = run_.recipe.generate;
    std::optional<std::string> text;
    try {
      if ((speaks_for_job() || answers()) && !cannot_sample_)
        text = generate(*model_, *data_.tokenizer, {config.prompt}, config)[0].text;
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      log_warning("no sample: ", error.what());  // a prompt that cannot be continued is no reason to end a run
      cannot_sample_ = true;
    }
    agree();
    if (stopping()) return false;  // the text is cut short; the resumed run samples again
    if (text && log_) log_->sample(state_.step, config.prompt, *text, state_);
    state_.sampled_step = state_.step;
  }
  return true;
}

bool TrainingLoop::evaluate() {
  const Clock::time_point begin = Clock::now();
  const Averaged averaged(*optimizer_);
  const DividedEvaluation among(ranks_->size() > 1 && !shards_ ? ranks_->ranks() : nullptr);
  const auto scored = data_.held_out->score(*model_, [&](int64_t begun, int64_t all) {
    if (log_) log_->status(cat("evaluating ", begun, "/", all));
  });
  if (!everywhere(scored.has_value())) {
    agree();
    return false;
  }
  const HeldOutScores& scores = *scored;
  metrics_ = scores.metrics;
  check_finite(std::isfinite(scores.loss), "the held-out loss");
  const bool best = state_.best_step < 0 || scores.best > state_.best_score;
  state_.evaluations_without_better = best ? 0 : state_.evaluations_without_better + 1;
  if (best) {
    state_.best_loss = scores.loss;
    state_.best_score = scores.best;
    state_.best_step = state_.step;
    if (speaks_for_job()) {
      make_directory(run_.out / "best");
      save_model(run_.out / "best" / "model.safetensors");
    } else if (answers()) {
      save_model({});
    }
  }
  state_.last_eval_loss = scores.loss;
  state_.evaluated_step = state_.step;
  if (log_) log_->evaluation(state_.step, scores, best, data_.held_out->best_by().name, state_);
  interval_start_ += Clock::now() - begin;  // evaluation is not training speed
  return true;
}

void TrainingLoop::save() {
  const Clock::time_point begin = Clock::now();
  // A checkpoint that no run can continue from would push a good one out.
  for (const Parameters* parameters : {&model_->parameters(), &objective_->parameters()})
    for (const Parameter& p : parameters->all())
      check_finite(p.master.device() == Device::meta || p.master.packed() || kernels::all_finite(p.master.value()),
                   "'" + p.name + "'");
  state_.elapsed = elapsed();
  std::function<void(const Path&)> write_weights;
  if (shards_) write_weights = [this](const Path& file) { save_model(file); };
  if (only_begins())
    write_weights = [this](const Path& file) {
      ModelOptions options = model_options();
      options.device = Device::cpu;
      save_initial_weights(model_->config(), options, file);
    };
  if (speaks_for_job())
    publish(save_checkpoint(run_.out, *model_, *optimizer_, state_, config_.save_total_limit, carried(),
                            &objective_->parameters(), write_weights));
  else if (answers() || optimizer_->sharded()) {
    if (shards_) save_model({});
    answer_checkpoint(*model_, *optimizer_);
  }
  saved_step_ = state_.step;
  interval_start_ += Clock::now() - begin;
}

double TrainingLoop::elapsed() const { return elapsed_before_ + seconds_since(start_); }

}  // namespace lithe
