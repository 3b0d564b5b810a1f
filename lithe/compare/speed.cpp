#include "lithe/compare/speed.h"

#include <chrono>
#include <cmath>
#include <limits>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/compare/decoding.h"
#include "lithe/compare/statistics.h"
#include "lithe/infer/translate.h"
#include "lithe/kernels/kernel.h"
#include "lithe/model/packable.h"
#include "lithe/train/step.h"

namespace lithe::compare {
namespace {

using Clock = std::chrono::steady_clock;
// Seconds that a cell is run for in a round, and how often at most.
constexpr double kShortest = 0.03;
constexpr size_t kRunsAtMost = 31;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<int32_t> some_tokens(const TokenStore& text) {
  std::vector<int32_t> ids(size_t(std::min<int64_t>(text.tokens(), 1 << 16)));
  text.copy(0, int64_t(ids.size()), ids.data());
  return ids;
}

}  // namespace

double time_training(const Contender& c, const BatchSource& order, int64_t steps) {
  Model model(
      c.model,
      {.dtype = c.train.parameter_dtype(), .compute = c.train.compute(), .trainable = true, .frozen = c.train.freeze});
  model.set_recompute(c.train.gradient_checkpointing);
  TrainedObjective objective(c.train, model);
  AdamW optimizer({&model.parameters(), &objective.parameters()}, c.train);
  int64_t next = 0;
  const auto step = [&](int64_t number) {
    std::vector<DeviceBatch> batches;
    for (int64_t i = 0; i < c.train.gradient_accumulation_steps; ++i, ++next)
      batches.push_back(to_device(
          read_by(model, order.batch(next / order.batches_per_epoch(), next % order.batches_per_epoch())), model));
    take_step(model, objective, optimizer, batches, c.train, number, c.train.learning_rate * 1e-3);
  };
  step(1);
  std::vector<double> times;
  for (int64_t i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    step(2 + i);
    times.push_back(seconds_since(start));
  }
  return quantile(times, 0.5);
}

SpeedBench::SpeedBench(std::vector<Contender> contenders, const MeasureConfig& measure, SpeedMaterial material)
    : contenders_(std::move(contenders)), measure_(measure), material_(std::move(material)) {
  if (material_.text)
    for (int64_t batch : measure.batch_sizes)
      for (int64_t prompt : measure.prompt_lengths) cells_.push_back({prompt, batch});
  if (!material_.sentences.empty()) searches_.push_back(1);
  if (!material_.sentences.empty() && material_.translate.num_beams > 1)
    searches_.push_back(material_.translate.num_beams);
  const DType dtype = dtype_named(measure.precision);
  for (const Contender& c : contenders_) {
    const std::map<std::string, bool> packed = packed_products(c.model);
    models_.push_back(
        std::make_unique<Model>(c.model, ModelOptions{.dtype = dtype, .compute = dtype, .packed = &packed}));
    if (!c.weights.empty()) load_weights(*models_.back(), c.weights);
  }
  for (size_t v = 0; v < contenders_.size(); ++v) {
    std::vector<CellCost> costs;
    const Model shapes(contenders_[v].model, {.device = Device::meta, .dtype = dtype, .compute = dtype});
    for (size_t c = 0; c < cells_.size(); ++c) {
      CellCost cost;
      const int64_t length = cells_[c].prompt + measure.decode_tokens, limit = shapes.position_limit();
      if (limit && length > limit) cost.refused = cat("its positions end at ", limit, ", this needs ", length);
      try {
        if (cost.refused.empty()) {
          Decoding meta(shapes, cells_[c].batch, cells_[c].prompt, measure.decode_tokens, {0}, contenders_[v].cache);
          {
            const kernels::CostMeter meter;
            meta.prefill();
            cost.prefill_flops = meter.total().flops;
          }
          const kernels::CostMeter meter;
          meta.decode();
          cost.decode_flops = meter.total().flops;
        }
      } catch (const Error& error) {
        cost.refused = error.what();
      }
      if (cost.refused.empty()) {
        double prefill = 0, decode = 0;
        run_cell(v, c, prefill, decode, &cost);
      }
      costs.push_back(cost);
    }
    costs_.push_back(std::move(costs));
    translated_.emplace_back();
    double seconds = 0;
    for (size_t s = 0; s < searches_.size(); ++s) translated_.back().push_back(run_search(v, s, seconds));
  }
}

int64_t SpeedBench::run_search(size_t contender, size_t search, double& seconds) {
  TranslateConfig config = material_.translate;
  config.num_beams = searches_[search];
  config.num_return_sequences = 1;
  const auto start = Clock::now();
  const auto translations =
      translate(*models_[contender], *material_.tokenizers.source, *material_.tokenizers.tokenizer, material_.sentences,
                config, "", {}, 1, {.further = material_.further, .trees = material_.trees});
  seconds = seconds_since(start);
  int64_t tokens = 0;
  for (const auto& best : translations) tokens += best.empty() ? 0 : int64_t(best[0].tokens.size());
  return tokens;
}

void SpeedBench::run_cell(size_t contender, size_t cell, double& prefill, double& decode_token, CellCost* cost) {
  const Model& model = *models_[contender];
  const int64_t held = ledger(Device::cpu).current();
  if (cost) ledger(Device::cpu).reset_peak();
  Decoding decoding(model, cells_[cell].batch, cells_[cell].prompt, measure_.decode_tokens,
                    some_tokens(*material_.text), contenders_[contender].cache);
  auto start = Clock::now();
  decoding.prefill();
  prefill = seconds_since(start);
  start = Clock::now();
  for (int64_t i = 0; i < measure_.decode_tokens; ++i) decoding.decode();
  decode_token = seconds_since(start) / double(measure_.decode_tokens);
  if (!cost) return;
  cost->state_bytes = decoding.state_bytes();
  cost->peak_bytes = ledger(Device::cpu).peak() - held + model.parameters().bytes();
}

std::vector<Timing> SpeedBench::round(int64_t number) {
  const size_t n = contenders_.size();
  std::vector<Timing> out(n);
  for (Timing& t : out) {
    t.train_step = kNone;
    t.prefill.assign(cells_.size(), kNone);
    t.decode_token.assign(cells_.size(), kNone);
    t.translation.assign(searches_.size(), kNone);
  }
  // The order turns, so that nobody always runs behind the same neighbour.
  const auto who = [&](size_t i, size_t turn) { return (i + turn) % n; };
  for (size_t i = 0; i < n && measure_.train_steps; ++i) {
    if (stop_signal()) return {};
    const size_t v = who(i, size_t(number));
    out[v].train_step = time_training(contenders_[v], *material_.batches, measure_.train_steps);
  }
  for (size_t c = 0; c < cells_.size(); ++c)
    for (size_t i = 0; i < n; ++i) {
      if (stop_signal()) return {};
      const size_t v = who(i, size_t(number) + c);
      if (!costs_[v][c].refused.empty()) continue;
      // Short work is run again and its median taken: other programs interrupt some of the runs, not most of them.
      std::vector<double> prefill, decode;
      for (double spent = 0; prefill.empty() || (spent < kShortest && prefill.size() < kRunsAtMost);) {
        double one = 0, token = 0;
        run_cell(v, c, one, token, nullptr);
        prefill.push_back(one);
        decode.push_back(token);
        spent += one + token * double(measure_.decode_tokens);
      }
      out[v].prefill[c] = quantile(prefill, 0.5);
      out[v].decode_token[c] = quantile(decode, 0.5);
    }
  for (size_t s = 0; s < searches_.size(); ++s)
    for (size_t i = 0; i < n; ++i) {
      const size_t v = who(i, size_t(number) + s);
      std::vector<double> times;
      for (double spent = 0; times.empty() || (spent < kShortest && times.size() < kRunsAtMost);) {
        double one = 0;
        run_search(v, s, one);
        if (stop_signal()) return {};
        times.push_back(one);
        spent += one;
      }
      out[v].translation[s] = quantile(times, 0.5);
    }
  return out;
}

}  // namespace lithe::compare
