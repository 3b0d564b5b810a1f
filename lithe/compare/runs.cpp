#include "lithe/compare/runs.h"

#include "lithe/base/counted.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/quiet_log.h"
#include "lithe/base/stop.h"
#include "lithe/compare/material.h"
#include "lithe/train/resume.h"
#include "lithe/train/trainer.h"

namespace lithe::compare {
namespace {

constexpr size_t kPieces = 2048;

// Differs when anything that shapes the outcome differs.
uint64_t key_of(const Recipe& recipe, uint64_t material, const std::string& precision) {
  std::string text = cat(material, " ", precision, "\n");
  for (const auto& [key, value] : leaves(recipe))
    if (!key.starts_with("generate.") && !key.starts_with("train.save_") && key != "eval.batch_tokens" &&
        key != "data.cache_directory")
      text += key + "=" + value + "\n";
  return checksum(text.data(), text.size());
}

// Neighbours joined until there are at most kPieces; depends on their number alone, so that all variants agree.
std::vector<TextPiece> joined(const std::vector<TextPiece>& pieces) {
  if (pieces.size() <= kPieces) return pieces;
  std::vector<TextPiece> out(kPieces);
  for (size_t i = 0; i < pieces.size(); ++i) {
    TextPiece& to = out[i * kPieces / pieces.size()];
    to.nll += pieces[i].nll;
    to.tokens += pieces[i].tokens;
  }
  return out;
}

Json to_json(const Outcome& o, uint64_t key) {
  Json json = {{"key", cat(key)},
               {"status", name_of(o.status)},
               {"message", o.message},
               {"steps", o.steps},
               {"tokens", o.tokens},
               {"seconds", o.seconds},
               {"planned_peak_bytes", o.planned_peak},
               {"measured_peak_bytes", o.measured_peak}};
  if (!o.finished()) return json;
  json["nll"] = o.quality.nll;
  json["scored_tokens"] = o.quality.tokens;
  json["words"] = o.quality.words;
  json["lines"] = o.quality.lines;
  json["bytes"] = o.quality.bytes;
  json["pieces"] = Json::array();
  for (const TextPiece& piece : o.pieces) json["pieces"].push_back({piece.nll, piece.tokens});
  if (!o.translations.empty()) json["translations"] = o.translations;
  if (!std::isnan(o.task_metric)) json["task_metric"] = o.task_metric;
  return json;
}

std::optional<Outcome> stored(const Path& file, uint64_t key, size_t sentences) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  try {
    const Json json = parse_json(read_file(file), file.string());
    if (json.at("key").get<std::string>() != cat(key)) return std::nullopt;
    Outcome o;
    const auto status = run_status(json.at("status").get<std::string>());
    check(status.has_value(), "compare", "its status is ", json.at("status"));
    o.status = *status;
    o.message = json.at("message");
    o.steps = json.at("steps");
    o.tokens = json.at("tokens");
    o.seconds = json.at("seconds");
    o.planned_peak = json.at("planned_peak_bytes");
    o.measured_peak = json.at("measured_peak_bytes");
    if (!o.finished()) return o;
    o.quality = {json.at("nll"), json.at("scored_tokens"), json.at("words"), json.at("lines"), json.at("bytes")};
    for (const Json& piece : json.at("pieces")) o.pieces.push_back({piece.at(0), piece.at(1)});
    if (json.contains("translations")) o.translations = json.at("translations").get<std::vector<std::string>>();
    if (json.contains("task_metric")) o.task_metric = json.at("task_metric");
    check(o.translations.size() == sentences, "compare", "it holds ", o.translations.size(), " translations of ",
          sentences, " sentences");
    return o;
  } catch (const std::exception& error) {
    log_warning("'", file.string(), "' is damaged (", error.what(), "); scoring again");
    return std::nullopt;
  }
}

void take(Outcome& o, const TrainResult& r) {
  o.steps = r.steps;
  o.tokens = r.tokens;
  o.seconds = r.seconds;
  o.planned_peak = r.planned.peak;
  o.measured_peak = r.measured.peak;
}

}  // namespace

Path run_directory(const Path& out, const std::string& variant, int64_t seed) {
  return out / "runs" / variant / cat("seed-", seed);
}

namespace {

// A run that a variant has with one seed: its recipe, where its outcome is kept, and what that must be of.
struct Seeded {
  Recipe recipe;
  Path file;
  uint64_t key;

  Seeded(const Variant& variant, int64_t seed, const Path& out, const Material& material, const std::string& precision)
      : file(run_directory(out, variant.name, seed) / "quality.json") {
    Variant own = variant;
    override_variant(own, {cat("train.seed=", seed)});
    recipe = own.recipe;
    key = key_of(recipe, material.fingerprint(), precision);
  }
  std::optional<Outcome> done(const Material& material) const { return stored(file, key, material.sentences()); }
};

}  // namespace

std::optional<Outcome> done_variant(const Variant& variant, int64_t seed, const Path& out, const Material& material,
                                    const std::string& precision) {
  return Seeded(variant, seed, out, material, precision).done(material);
}

std::optional<Outcome> run_variant(const Variant& variant, int64_t seed, const Path& out, const Material& material,
                                   const std::string& precision) {
  const Seeded seeded(variant, seed, out, material, precision);
  const Recipe& recipe = seeded.recipe;
  const Path directory = run_directory(out, variant.name, seed);
  std::optional<Outcome> outcome = seeded.done(material);
  if (!outcome) {
    outcome.emplace();
    try {
      log_info("variant '", variant.name, "', seed ", seed, ": ", counted(variant.steps, "step"));
      const QuietLog quiet;
      TrainRun run{.out = directory, .recipe = recipe, .resume = has_begun(directory), .samples = false};
      run.recipe.from_pretrained.clear();  // all variants start from the seed
      const TrainResult result = train(run);
      take(*outcome, result);
      if (result.signal) return std::nullopt;
      outcome->status = RunStatus::finished;
      const LoadedModel loaded = load_model(directory, "", precision);
      material.score(loaded, recipe, *outcome);
      outcome->pieces = joined(outcome->pieces);
    } catch (const Error& error) {
      if (stop_signal()) return std::nullopt;
      if (error.code() != ExitCode::diverged)
        throw Error(variant.operation, cat("variant '", variant.name, "', seed ", seed, ": ", error.what()),
                    error.code());
      outcome->status = RunStatus::diverged;
      outcome->message = error.what();
      const Json result = parse_json(read_file(directory / "result.json"), (directory / "result.json").string());
      outcome->steps = result.value("steps", int64_t(0));
      outcome->tokens = result.value("tokens", int64_t(0));
      outcome->seconds = result.value("seconds", 0.0);
      outcome->planned_peak = variant.plan.memory.peak;
      log_warning("variant '", variant.name, "', seed ", seed, " diverged: ", error.what());
    }
    write_file(seeded.file, dump(to_json(*outcome, seeded.key), -1, Invalid::replaced) + "\n");
  }
  outcome->seed = seed;
  outcome->directory = directory;
  return outcome;
}

}  // namespace lithe::compare
