#include "lithe/train/run_log.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lithe/base/json.h"
#include "lithe/base/log.h"

namespace lithe {
namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

// As append() sums them.
uint64_t checksum_of_lines(std::string_view text) {
  uint64_t sum = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    sum = checksum(line.data(), line.size(), sum);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return sum;
}

}  // namespace

std::string format_duration(double seconds) {
  const long long s = std::llround(seconds);
  if (s < 60) return format("%lld s", s);
  if (s < 3600) return format("%lld:%02lld", s / 60, s % 60);
  return format("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

RunLog::RunLog(const Path& run, TrainState* resumed, int64_t total_steps)
    : run_(run), total_steps_(total_steps), terminal_(draws_on_terminal()) {
  const auto start = [&](const char* file, uint64_t TrainState::*size_of) {
    const Path path = run / file;
    if (!resumed) return write_file(path, "");
    uint64_t& bytes = resumed->*size_of;
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(path, error);
    const auto known = resumed->log_checksums.find(file);
    if (!error && size >= bytes) {
      std::filesystem::resize_file(path, bytes);
      if (known == resumed->log_checksums.end() || known->second == checksum_of_lines(read_file(path))) return;
    }
    const std::string begins = cat(file, " begins again after step ", resumed->step);
    if (error)
      log_warning("'", path.string(), "' is gone: ", begins);
    else
      log_warning("'", path.string(),
                  "' is not what it was at the checkpoint: it was damaged or changed from outside; ", "it is kept as ",
                  file, ".damaged, and ", begins);
    if (!error) std::filesystem::rename(path, run / cat(file, ".damaged"));
    write_file(path, "");
    bytes = 0;
    if (known != resumed->log_checksums.end()) resumed->log_checksums.erase(known);
    set_aside_ = true;
  };
  start("metrics.jsonl", &TrainState::metrics_bytes);
  start("speed.jsonl", &TrainState::speed_bytes);
  start("samples.jsonl", &TrainState::samples_bytes);
  std::error_code ignored;
  if (!resumed) std::filesystem::remove_all(run / "tensorboard", ignored);  // of an attempt that saved nothing
  tensorboard_ = std::make_unique<TensorBoardWriter>(run / "tensorboard",
                                                     resumed ? std::optional<int64_t>(resumed->step) : std::nullopt);
}

void RunLog::append(const char* file, const std::string& line, uint64_t& bytes, TrainState& state) {
  append_file(run_ / file, line + "\n");
  bytes += line.size() + 1;
  uint64_t& sum = state.log_checksums[file];
  sum = checksum(line.data(), line.size(), sum);
}

void RunLog::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void RunLog::status(const std::string& line) {
  if (!terminal_) return;
  clear();
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void RunLog::interval(const Interval& i, TrainState& state) {
  Json metrics = {{"step", i.step},
                  {"tokens", i.tokens},
                  {"epoch", i.epoch},
                  {"loss", i.loss},
                  {"learning_rate", i.learning_rate},
                  {"grad_norm", i.gradient_norm}};
  if (i.overflowed_steps) metrics["overflowed_steps"] = i.overflowed_steps;
  if (!i.auxiliary.empty()) metrics["auxiliary"] = i.auxiliary;
  for (const auto& [key, statistic] : i.statistics) {
    std::vector<double> values = statistic.means();
    for (double& value : values) value = std::round(value * 1e6) / 1e6;
    metrics["statistics"][key.first][cat(key.second + 1)] = values;
  }
  append("metrics.jsonl", dump(metrics), state.metrics_bytes, state);
  append("speed.jsonl",
         dump(Json({{"step", i.step},
                    {"tokens_per_second", i.tokens_per_second},
                    {"step_seconds", i.step_seconds},
                    {"elapsed_seconds", i.elapsed}})),
         state.speed_bytes, state);
  tensorboard_->scalar("train/loss", i.step, i.loss);
  tensorboard_->scalar("train/learning_rate", i.step, i.learning_rate);
  tensorboard_->scalar("train/grad_norm", i.step, i.gradient_norm);
  for (const auto& [name, loss] : i.auxiliary) tensorboard_->scalar("train/" + name, i.step, loss);
  for (const auto& [key, statistic] : i.statistics)
    if (statistic.sums.size() == 1)
      tensorboard_->scalar(cat("statistics/", key.first, "/layer_", key.second + 1), i.step, statistic.means()[0]);
  tensorboard_->scalar("speed/tokens_per_second", i.step, i.tokens_per_second);
  const std::string left = total_steps_ > i.step && i.step_seconds > 0
                               ? "  ETA " + format_duration(double(total_steps_ - i.step) * i.step_seconds)
                               : "";
  const std::string of = total_steps_ ? cat(i.step, "/", total_steps_) : cat(i.step);
  const std::string line = format("step %s  loss %.4f  lr %.2e  |g| %.2f  %.0f tok/s%s", of.c_str(), i.loss,
                                  i.learning_rate, i.gradient_norm, i.tokens_per_second, left.c_str());
  if (terminal_)
    status(line);
  else if (interval_pace_.due(i.step, total_steps_))
    log_info(line);
}

void RunLog::evaluation(int64_t step, const HeldOutScores& scores, bool best, const std::string& best_by,
                        TrainState& state) {
  const double loss = scores.loss;
  Json line = {{"step", step}, {"eval_loss", loss}};
  std::string text = format("step %lld  held-out loss %.4f", static_cast<long long>(step), loss);
  tensorboard_->scalar("eval/loss", step, loss);
  if (scores.perplexity) {
    line["eval_perplexity"] = std::exp(loss);
    text += format("  perplexity %.2f", std::exp(loss));
    tensorboard_->scalar("eval/perplexity", step, std::exp(loss));
  }
  for (const auto& [name, value] : scores.metrics) {
    line["eval_" + name] = value;  // null where it is undefined
    text += format("  %s %.4f", name.c_str(), value);
    tensorboard_->scalar("eval/" + name, step, value);
  }
  if (scores.bits_per_byte > 0) line["eval_bits_per_byte"] = scores.bits_per_byte;
  line["best"] = best;
  append("metrics.jsonl", dump(line), state.metrics_bytes, state);
  clear();
  if (!terminal_ && !evaluation_pace_.due(step, total_steps_)) return;
  log_info(text + (best ? best_by == "loss" ? "  (best so far)" : cat("  (best ", best_by, " so far)") : ""));
}

void RunLog::spike(const Spike& s, TrainState& state) {
  const Json line = {{"step", s.step},
                     {"spike",
                      {{"step", s.at},
                       {"loss", s.loss},
                       {"limit", s.limit},
                       {"first_micro_batch", s.first_batch},
                       {"last_micro_batch", s.last_batch}}}};
  append("metrics.jsonl", dump(line), state.metrics_bytes, state);
  tensorboard_->scalar("train/spike", s.step, s.loss);
}

void RunLog::sample(int64_t step, const std::string& prompt, const std::string& text, TrainState& state) {
  const Json line = {{"step", step}, {"prompt", prompt}, {"text", text}};
  append("samples.jsonl", dump(line, -1, Invalid::replaced), state.samples_bytes, state);
  tensorboard_->text("samples", step, prompt + text);
}

}  // namespace lithe
