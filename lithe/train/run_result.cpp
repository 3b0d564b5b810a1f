#include "lithe/train/run_result.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"

namespace lithe {
namespace {

// null: there is no such file, or something else than this program has written it.
Json kept(const Path& file) {
  if (!std::filesystem::exists(file)) return {};
  try {
    return parse_json(read_file(file), file.string());
  } catch (const Error& error) {
    log_warning(error.what());
    return {};
  }
}

int64_t count_in(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : 0;
}

MemoryUse measured_in(const Json& memory) {
  MemoryUse use;
  if (!memory.is_object() || !memory.contains("measured")) return use;
  const Json& tree = memory["measured"];
  for (int c = 0; c < kMemoryClasses; ++c) use.by_class[size_t(c)] = count_in(tree, name_of(MemoryClass(c)));
  use.peak = count_in(tree, "peak");
  return use;
}

std::string result_text(RunStatus status, const TrainResult& r, const std::string& message) {
  Json json = {{"status", name_of(status)},
               {"steps", r.steps},
               {"tokens", r.tokens},
               {"final_loss", r.final_loss},
               {"seconds", r.seconds}};
  if (r.best_step >= 0) {
    json["eval_loss"] = r.eval_loss;
    json["best_eval_loss"] = r.best_eval_loss;
    json["best_step"] = r.best_step;
    if (!r.best_by.empty()) json["best_by"] = r.best_by;
    if (std::isfinite(r.best_value) && !r.best_by.empty()) json["best_value"] = r.best_value;
    for (const auto& [name, value] : r.metrics) json["metrics"][name] = value;
  }
  if (r.averaged) json["averaged"] = r.averaged;
  if (r.overflowed) json["overflowed_steps"] = r.overflowed;
  if (!message.empty()) json["message"] = message;
  return dump(json, 2, Invalid::replaced) + "\n";
}

// Within the blocks that the file has, for which a full disk has room.
void overwrite(const Path& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  if (::pwrite(fd, text.data(), text.size(), 0) == ssize_t(text.size())) (void)!::ftruncate(fd, off_t(text.size()));
  ::close(fd);
}

}  // namespace

void write_result(const Path& run, RunStatus status, const TrainResult& r, const std::string& message) {
  write_file(run / "result.json", result_text(status, r, message));
}

void write_last_result(const Path& run, RunStatus status, const TrainResult& r, const std::string& message) {
  const std::string text = result_text(status, r, message);
  try {
    write_file(run / "result.json", text);
  } catch (const Error&) {
    overwrite(run / "result.json", text);
  }
}

std::optional<TrainResult> finished_result(const Path& run, const TrainResult& now) {
  const Json json = kept(run / "result.json");
  if (!json.is_object() || json.value("status", Json()) != name_of(RunStatus::finished) ||
      count_in(json, "steps") != now.steps || count_in(json, "averaged") != now.averaged)
    return std::nullopt;
  TrainResult result = now;
  result.status = RunStatus::finished;
  if (json.contains("seconds") && json["seconds"].is_number()) result.seconds = json["seconds"];
  if (json.contains("metrics"))
    for (const auto& [name, value] : json["metrics"].items()) result.metrics.emplace_back(name, number_or_nan(value));
  result.measured = measured_in(kept(run / "memory.json"));
  return result;
}

MemoryUse write_memory(const Path& run, const MemoryUse& planned, const MemoryUse* measured) {
  const auto tree = [](const MemoryUse& use) {
    Json out = Json::object();
    for (int c = 0; c < kMemoryClasses; ++c) out[name_of(MemoryClass(c))] = use.by_class[size_t(c)];
    out["peak"] = use.peak;
    return out;
  };
  Json json = {{"planned", tree(planned)}};
  MemoryUse all;
  if (measured) {
    const Json before = kept(run / "memory.json");
    all = measured_in(before);
    for (size_t c = 0; c < all.by_class.size(); ++c) all.by_class[c] = std::max(all.by_class[c], measured->by_class[c]);
    all.peak = std::max(all.peak, measured->peak);
    json["measured"] = tree(all);
    json["arena"] = std::max(count_in(before, "arena"), arena_bytes());
    json["process"] = std::max(count_in(before, "process"), peak_resident_bytes());
  }
  write_file(run / "memory.json", dump(json, 2) + "\n");
  return all;
}

}  // namespace lithe
