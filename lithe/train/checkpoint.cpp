#include "lithe/train/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/model/safetensors.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;

std::string directory_name(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

std::string file_checksum(const Path& path) {
  const MappedFile file(path);
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(checksum(file.data(), file.size())));
  return text;
}

std::vector<Path> checkpoints(const Path& states) {
  std::vector<Path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(states, error))
    if (entry.is_directory() && entry.path().filename().string().starts_with("step-")) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Path save_checkpoint(const Path& run, const Model& model, const AdamW& optimizer, const TrainState& s, int64_t keep) {
  const Path states = run / "training_state";
  make_directory(states);
  const Path done = states / directory_name(s.step), temporary = states / (".saving-" + directory_name(s.step));
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  try {
    make_directory(temporary);
    save_weights(model, temporary / "model.safetensors");
    write_safetensors(temporary / "optimizer.safetensors", optimizer.state(), {{"format", "lithe"}});
    // Doubles are written as the shortest text that reads back to the same bits.
    Json json = {{"version", kVersion}, {"step", s.step}, {"tokens", s.tokens}, {"micro_batches", s.micro_batches}, {"skipped", s.skipped}, {"rollbacks", s.rollbacks},
                 {"interval_loss", s.interval_loss}, {"interval_labels", s.interval_labels}, {"interval_steps", s.interval_steps}, {"interval_norm", s.interval_norm},
                 {"recent_losses", s.recent_losses}, {"steps_above_threshold", s.steps_above_threshold}, {"best_loss", s.best_loss}, {"best_step", s.best_step},
                 {"last_eval_loss", s.last_eval_loss}, {"evaluated_step", s.evaluated_step}, {"sampled_step", s.sampled_step}, {"metrics_bytes", s.metrics_bytes}, {"speed_bytes", s.speed_bytes}, {"samples_bytes", s.samples_bytes}, {"elapsed", s.elapsed}, {"threads", s.threads}};
    json["checksums"] = {{"model.safetensors", file_checksum(temporary / "model.safetensors")}, {"optimizer.safetensors", file_checksum(temporary / "optimizer.safetensors")}};
    write_file(temporary / "state.json", json.dump(2) + "\n");
    fs::remove_all(done, ignored);
    fs::rename(temporary, done);
    sync_directory(states);
  } catch (const std::exception& error) {
    fs::remove_all(temporary, ignored);
    fail("checkpoint", "step ", s.step, " could not be saved (", error.what(), "); earlier checkpoints are untouched");
  }
  std::vector<Path> all = checkpoints(states);
  for (size_t i = 0; i + size_t(keep) < all.size(); ++i) {
    // Renamed first, so that a kill in the middle never leaves half a checkpoint under a valid name.
    const Path dying = states / (".dropping-" + all[i].filename().string());
    fs::rename(all[i], dying, ignored);
    fs::remove_all(dying, ignored);
  }
  return done;
}

Path latest_checkpoint(const Path& run) {
  const Path states = run / "training_state";
  std::error_code ignored;
  std::vector<Path> leftovers;
  for (const auto& entry : fs::directory_iterator(states, ignored))
    if (const std::string name = entry.path().filename().string(); name.starts_with(".saving-") || name.starts_with(".dropping-")) leftovers.push_back(entry.path());
  for (const Path& path : leftovers) fs::remove_all(path, ignored);
  const std::vector<Path> all = checkpoints(states);
  return all.empty() ? Path() : all.back();
}

TrainState load_checkpoint(const Path& checkpoint, Model& model, AdamW& optimizer) {
  const Json json = parse_json(read_file(checkpoint / "state.json"), (checkpoint / "state.json").string());
  TrainState s;
  try {
    check(json.at("version") == kVersion, "resume", "'", checkpoint.string(), "' has format version ", json.at("version").dump(), ", this program reads ", kVersion);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      check(json.at("checksums").at(file) == file_checksum(checkpoint / file), "resume", "'", (checkpoint / file).string(), "' is damaged (its checksum differs); remove '", checkpoint.string(), "' to resume from the checkpoint before it");
    json.at("step").get_to(s.step);
    json.at("tokens").get_to(s.tokens);
    json.at("micro_batches").get_to(s.micro_batches);
    json.at("skipped").get_to(s.skipped);
    json.at("rollbacks").get_to(s.rollbacks);
    json.at("interval_loss").get_to(s.interval_loss);
    json.at("interval_labels").get_to(s.interval_labels);
    json.at("interval_steps").get_to(s.interval_steps);
    json.at("interval_norm").get_to(s.interval_norm);
    json.at("recent_losses").get_to(s.recent_losses);
    json.at("steps_above_threshold").get_to(s.steps_above_threshold);
    json.at("best_loss").get_to(s.best_loss);
    json.at("best_step").get_to(s.best_step);
    json.at("last_eval_loss").get_to(s.last_eval_loss);
    json.at("evaluated_step").get_to(s.evaluated_step);
    json.at("sampled_step").get_to(s.sampled_step);
    json.at("metrics_bytes").get_to(s.metrics_bytes);
    json.at("speed_bytes").get_to(s.speed_bytes);
    json.at("samples_bytes").get_to(s.samples_bytes);
    json.at("elapsed").get_to(s.elapsed);
    json.at("threads").get_to(s.threads);
  } catch (const Json::exception& error) {
    fail("resume", "'", (checkpoint / "state.json").string(), "': ", error.what());
  }
  load_weights(model, checkpoint / "model.safetensors");
  const SafetensorsFile file(checkpoint / "optimizer.safetensors");
  for (const auto& [name, tensor] : optimizer.state()) file.read(name, tensor);
  return s;
}

void publish_weights(const Path& run, const Path& checkpoint) {
  const Path from = checkpoint / "model.safetensors", to = run / "model.safetensors", temporary = run / "model.safetensors.linking";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(from, temporary, error);
  if (error) fs::copy_file(from, temporary, fs::copy_options::overwrite_existing);
  fs::rename(temporary, to);
  sync_directory(run);
}

}  // namespace lithe
