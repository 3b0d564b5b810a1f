#include "lithe/cli/train_report.h"

#include <cstdio>
#include <iostream>

#include "lithe/base/counted.h"
#include "lithe/base/log.h"
#include "lithe/train/result_json.h"
#include "lithe/train/resume.h"
#include "lithe/train/run_log.h"

namespace lithe {
namespace {

void print(const TrainResult& r, const std::string& out) {
  std::printf("%s after %s, %s, %s\n", name_of(r.status), counted(r.steps, "step").c_str(),
              counted(r.tokens, "token").c_str(), format_duration(r.seconds).c_str());
  if (r.best_step >= 0) {
    std::printf("held-out loss %.4f", r.eval_loss);
    if (r.perplexity) std::printf(" (perplexity %.2f)", std::exp(r.eval_loss));
    for (const auto& [name, value] : r.metrics) std::printf("  %s %.4f", name.c_str(), value);
    if (r.best_by.empty() || r.best_by == "loss")
      std::printf(", best %.4f at step %lld\n", r.best_eval_loss, static_cast<long long>(r.best_step));
    else
      std::printf(", best %s %.4f at step %lld\n", r.best_by.c_str(), r.best_value,
                  static_cast<long long>(r.best_step));
  }
  std::printf("peak memory %s (planned %s)\n", format_bytes(double(r.measured.peak)).c_str(),
              format_bytes(double(r.planned.peak)).c_str());
  std::printf("weights %s/model.safetensors, report %s/report.html\n", out.c_str(), out.c_str());
}

}  // namespace

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:@%") ==
                                          std::string::npos;
  if (plain) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

int report_training(const TrainResult& r, const std::string& out, bool json, const std::string& resume_command,
                    const std::optional<TaskScore>& task) {
  if (json) {
    Json result = result_json(r, out);
    if (task) result["task"] = task_score_json(*task);
    std::cout << dump(result, 2, Invalid::replaced) << "\n";
  } else {
    print(r, out);
    if (task) std::fputs(task_score_text(*task, out).c_str(), stdout);
  }
  for (size_t i = 0; task && i < task->warnings.size(); ++i) log_warning(task->warnings[i]);
  if (!r.signal) return 0;
  log_info("stopped by signal ", r.signal, " and saved; continue with: ", resume_command);
  return 128 + r.signal;
}

bool resumes(const std::string& value, const Path& out) {
  check_usage(value.empty() || value == "true" || value == "auto", "train",
              "--resume stands alone or with auto, not with '", value, "'");
  return value == "true" || (value == "auto" && has_begun(out));
}

}  // namespace lithe
