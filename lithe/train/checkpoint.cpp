#include "lithe/train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "lithe/base/checksummed_blocks.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/model/safetensors.h"
#include "lithe/model/tensor_stream.h"

namespace lithe {
namespace {

constexpr const char *kCarried = "carried.safetensors", *kObjective = "objective.safetensors";

namespace fs = std::filesystem;

constexpr int kVersion = 3;

std::string directory_name(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

std::string hex(uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::string file_checksum(const Path& path) { return hex(checksum_of_file(path)); }

std::string text_checksum(const std::string& text) { return hex(checksum(text.data(), text.size())); }

// One list for both directions. Doubles are written as the shortest text that reads back to the same bits.
template <class State, class F>
void for_each_field(State& s, F&& f) {
  f("step", s.step);
  f("tokens", s.tokens);
  f("micro_batches", s.micro_batches);
  f("skipped", s.skipped);
  f("rollbacks", s.rollbacks);
  f("rollback_step", s.rollback_step);
  f("interval_loss", s.interval_loss);
  f("interval_labels", s.interval_labels);
  f("interval_steps", s.interval_steps);
  f("interval_norm", s.interval_norm);
  f("recent_losses", s.recent_losses);
  f("steps_above_threshold", s.steps_above_threshold);
  f("last_loss", s.last_loss);
  f("best_loss", s.best_loss);
  f("best_step", s.best_step);
  f("last_eval_loss", s.last_eval_loss);
  f("best_score", s.best_score);
  f("evaluations_without_better", s.evaluations_without_better);
  f("evaluated_step", s.evaluated_step);
  f("sampled_step", s.sampled_step);
  f("metrics_bytes", s.metrics_bytes);
  f("speed_bytes", s.speed_bytes);
  f("samples_bytes", s.samples_bytes);
  f("elapsed", s.elapsed);
  f("threads", s.threads);
  f("data_fingerprint", s.data_fingerprint);
}

Json to_json(const TrainState& state) {
  Json json = {{"version", kVersion}};
  for_each_field(state, [&](const char* name, const auto& value) { json[name] = value; });
  json["log_checksums"] = state.log_checksums;
  if (state.base_fingerprint) json["base_fingerprint"] = state.base_fingerprint;
  if (state.loss_scale > 0)
    json["loss_scaling"] = {state.loss_scale, state.good_steps, state.overflowed_steps, state.interval_overflows};
  json["interval_auxiliary"] = state.interval_auxiliary;
  for (const auto& [key, s] : state.interval_statistics)
    json["interval_statistics"].push_back({key.first, key.second, s.sums, s.weight});
  return json;
}

void from_json(const Json& json, TrainState& state) {
  for_each_field(state, [&](const char* name, auto& value) { json.at(name).get_to(value); });
  // Older checkpoints have none of these.
  if (json.contains("loss_scaling")) {
    json["loss_scaling"].at(0).get_to(state.loss_scale);
    json["loss_scaling"].at(1).get_to(state.good_steps);
    json["loss_scaling"].at(2).get_to(state.overflowed_steps);
    if (json["loss_scaling"].size() > 3) json["loss_scaling"].at(3).get_to(state.interval_overflows);
  }
  if (json.contains("base_fingerprint")) json["base_fingerprint"].get_to(state.base_fingerprint);
  if (json.contains("log_checksums")) json["log_checksums"].get_to(state.log_checksums);
  if (json.contains("interval_auxiliary")) json["interval_auxiliary"].get_to(state.interval_auxiliary);
  if (json.contains("interval_statistics"))
    for (const Json& s : json["interval_statistics"])
      state.interval_statistics[{s.at(0), s.at(1)}] = {s.at(2).get<std::vector<double>>(), s.at(3)};
}

std::vector<Path> checkpoints(const Path& states) {
  std::vector<Path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(states, error))
    if (entry.is_directory() && entry.path().filename().string().starts_with("step-")) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// Renamed first, so that a kill in the middle never leaves half a checkpoint under a valid name.
void drop(const Path& checkpoint) {
  std::error_code ignored;
  const Path dying = checkpoint.parent_path() / (".dropping-" + checkpoint.filename().string());
  fs::remove_all(dying, ignored);
  fs::rename(checkpoint, dying, ignored);
  fs::remove_all(dying, ignored);
}

// Makes `from` the directory `to`. What stood there is exchanged in one step where the file system can, so that at no
// moment the run is without this checkpoint.
void replace_directory(const Path& from, const Path& to) {
  if (!fs::exists(to)) return fs::rename(from, to);
  std::error_code ignored;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    drop(to);
    return fs::rename(from, to);
  }
  fs::remove_all(from, ignored);
}

std::map<std::string, Tensor> numbers_of(const Parameters& parameters) {
  std::map<std::string, Tensor> out;
  for (const Parameter& p : parameters.all()) out[p.name] = p.numbers();
  return out;
}

// Moments that were left without memory are zeros.
std::map<std::string, PendingTensor> moments_of(const AdamW& optimizer) {
  std::map<std::string, PendingTensor> out;
  optimizer.with_whole_state([&](const auto& whole) { out = whole; });
  return out;
}

void save_moments(const Model& model, const AdamW& optimizer, const Path& file) {
  const std::map<std::string, std::string> notes{{"format", "lithe"}};
  if (!model.division())
    return optimizer.with_whole_state([&](const auto& whole) { stream_safetensors(file, whole, notes); });
  model.division()->gather(moments_of(optimizer), {"m.", "v."},
                           [&](const auto& whole) { stream_safetensors(file, whole, notes); });
}

void load_moments(const Model& model, const AdamW& optimizer, const Path& path) {
  const SafetensorsFile file(path);
  const Division* const division = model.division();
  for (const auto& [name, tensor] : optimizer.state()) {
    if (!division) {
      file.read(name, tensor);
      continue;
    }
    const MemoryScope scratch(MemoryClass::workspace);
    const auto entry = file.entries().find(name);
    check(entry != file.entries().end(), "load", "'", path.string(), "' has no '", name, "'");
    const Tensor whole = empty(entry->second.shape, tensor.dtype());
    file.read(name, whole);
    copy_into(tensor, division->taken(name.substr(2), whole));
  }
}

Json read_state_json(const Path& checkpoint) {
  Json json = parse_json(read_file(checkpoint / "state.json"), "state.json");
  check(json.at("version") == kVersion, "version", dump(json.at("version")), ", this program reads ", kVersion);
  const Json sum = json.at("checksum");
  json.erase("checksum");
  check(sum == text_checksum(dump(json)), "state.json", "its checksum differs");
  return json;
}

[[noreturn]] void refuse_checkpoint(const Path& checkpoint, const std::exception& why) {
  fail("resume", "the checkpoint '", checkpoint.string(), "' cannot be used (", why.what(),
       "); remove that directory to resume from the checkpoint before it");
}

void load_parameters(const Path& path, Parameters& parameters) {
  const SafetensorsFile file(path);
  const MemoryScope scratch(MemoryClass::workspace);
  for (Parameter& p : parameters.all()) {
    const Tensor numbers = empty(p.master.shape(), p.numbers_type());
    file.read(p.name, numbers);
    p.assign(numbers);
  }
  parameters.refresh_views();
}

}  // namespace

Path checkpoint_path(const Path& run, int64_t step) { return run / "training_state" / directory_name(step); }

int64_t step_of(const Path& checkpoint) { return std::stoll(checkpoint.filename().string().substr(5)); }

void drop_checkpoints_after(const Path& run, int64_t step) {
  const std::string last = directory_name(step);
  for (const Path& checkpoint : checkpoints(run / "training_state"))
    if (checkpoint.filename().string() > last) drop(checkpoint);
}

void answer_checkpoint(const Model& model, const AdamW& optimizer) {
  if (model.division()) save_weights(model, {});
  save_moments(model, optimizer, {});
}

Path save_checkpoint(const Path& run, const Model& model, const AdamW& optimizer, const TrainState& state, int64_t keep,
                     const CarriedState* carried, const Parameters* of_objective,
                     const std::function<void(const Path&)>& write_weights) {
  const bool learns = of_objective && of_objective->count();
  const Path states = run / "training_state";
  make_directory(states);
  const Path done = states / directory_name(state.step), temporary = states / (".saving-" + directory_name(state.step));
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  try {
    make_directory(temporary);
    if (write_weights)
      write_weights(temporary / "model.safetensors");
    else
      save_weights(model, temporary / "model.safetensors", IntegersIn::another_file);
    save_moments(model, optimizer, temporary / "optimizer.safetensors");
    if (carried) write_safetensors(temporary / kCarried, carried->save(), {{"format", "lithe"}});
    if (learns) write_safetensors(temporary / kObjective, numbers_of(*of_objective), {{"format", "lithe"}});
    Json json = to_json(state);
    json["checksums"] = {{"model.safetensors", file_checksum(temporary / "model.safetensors")},
                         {"optimizer.safetensors", file_checksum(temporary / "optimizer.safetensors")}};
    if (carried) json["checksums"][kCarried] = file_checksum(temporary / kCarried);
    if (learns) json["checksums"][kObjective] = file_checksum(temporary / kObjective);
    json["checksum"] = text_checksum(dump(json));
    write_file(temporary / "state.json", dump(json, 2) + "\n");
    replace_directory(temporary, done);
    sync_directory(states);
  } catch (const std::exception& error) {
    fs::remove_all(temporary, ignored);
    fail("checkpoint", "step ", state.step, " could not be saved (", error.what(),
         "); earlier checkpoints are untouched");
  }
  std::vector<Path> all = checkpoints(states);
  for (size_t i = 0; i + size_t(keep) < all.size(); ++i)
    if (state.rollback_step < 0 || all[i].filename() != directory_name(state.rollback_step)) drop(all[i]);
  return done;
}

Path latest_checkpoint(const Path& run) {
  const Path states = run / "training_state";
  std::error_code ignored;
  std::vector<Path> leftovers;
  for (const auto& entry : fs::directory_iterator(states, ignored))
    if (const std::string name = entry.path().filename().string();
        name.starts_with(".saving-") || name.starts_with(".dropping-"))
      leftovers.push_back(entry.path());
  for (const Path& path : leftovers) fs::remove_all(path, ignored);
  const std::vector<Path> all = checkpoints(states);
  return all.empty() ? Path() : all.back();
}

TrainState read_state(const Path& checkpoint) {
  TrainState s;
  try {
    from_json(read_state_json(checkpoint), s);
  } catch (const std::exception& error) {
    refuse_checkpoint(checkpoint, error);
  }
  return s;
}

TrainState load_checkpoint(const Path& checkpoint, Model& model, AdamW& optimizer, CarriedState* carried,
                           Parameters* of_objective) {
  const bool learns = of_objective && of_objective->count();
  TrainState s;
  try {
    const Json json = read_state_json(checkpoint);
    std::vector<const char*> files{"model.safetensors", "optimizer.safetensors"};
    if (carried) files.push_back(kCarried);
    if (learns) files.push_back(kObjective);
    for (const char* file : files)
      check(json.at("checksums").at(file) == file_checksum(checkpoint / file), file, "its checksum differs");
    from_json(json, s);
    load_weights(model, checkpoint / "model.safetensors", IntegersIn::another_file);
    load_moments(model, optimizer, checkpoint / "optimizer.safetensors");
    if (learns) load_parameters(checkpoint / kObjective, *of_objective);
    if (carried) {
      const SafetensorsFile states(checkpoint / kCarried);
      NamedTensors kept;
      for (const auto& [name, entry] : states.entries())
        states.read(name, kept[name] = empty(entry.shape, entry.dtype));
      carried->restore(kept);
    }
  } catch (const std::exception& error) {
    refuse_checkpoint(checkpoint, error);
  }
  return s;
}

// spec: train.presets | training | the mean of the last checkpoints' weights, as published for translation | TH 3.4
void average_checkpoints(const Path& run, int64_t count) {
  std::vector<Path> all = checkpoints(run / "training_state");
  if (int64_t(all.size()) > count) all.erase(all.begin(), all.end() - count);
  check(!all.empty(), "average", "'", run.string(), "' has no checkpoint");
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (const Path& checkpoint : all)
    files.push_back(std::make_unique<SafetensorsFile>(checkpoint / "model.safetensors"));
  std::map<std::string, PendingTensor> out;
  for (const auto& [name, entry] : files.front()->entries())
    out[name] = {entry.shape, DType::f32, [&files, name = name, shape = entry.shape, dtype = entry.dtype] {
                   const Tensor mean = zeros(shape, DType::f64), one = empty(shape, dtype);
                   for (const auto& file : files) {
                     file->read(name, one);
                     for (int64_t i = 0; i < one.numel(); ++i)
                       mean.data<double>()[i] += value_at(one, i) / double(files.size());
                   }
                   return convert(mean, DType::f32);
                 }};
  make_directory(run / "averaged");
  stream_safetensors(run / "averaged" / "model.safetensors", out, {{"format", "lithe"}});
  log_info("averaged/model.safetensors is the mean of the last ", all.size(), " checkpoints");
}

void publish_weights(const Path& run, const Path& checkpoint) {
  const Path from = checkpoint / "model.safetensors", to = run / "model.safetensors";
  const Temporary link(to, Temporary::Kind::directory);  // a place where nobody else writes
  const Path linked = link.name() / "model.safetensors";
  std::error_code error;
  fs::create_hard_link(from, linked, error);
  if (error) fs::copy_file(from, linked);
  fs::rename(linked, to);
  sync_directory(run);
}

}  // namespace lithe
