#include "lithe/fit/workshop.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/base/new_directory.h"
#include "lithe/base/stop.h"
#include "lithe/compress/prune_run.h"
#include "lithe/infer/weights_file.h"

namespace lithe::fit {
namespace {

constexpr int64_t kLongestUse = 128;

// Keys of the recipe that have the run learn from the given text and hold half of it out, where its own texts are gone.
std::vector<std::string> own_data(const Request& request, const Recipe& recipe) {
  if (recipe.has_task() || !recipe.data.files.empty() || request.text.empty()) return {};
  return {cat("data.files=", dump(Json(request.text))), "data.validation_fraction=0.5"};
}

Recipe read_with(const Request& request, const std::vector<std::string>& set) {
  const Path file = request.run / "resolved_recipe.yaml";
  check_usage(std::filesystem::exists(file), "fit", "'", request.run.string(),
              "' has no resolved_recipe.yaml; give the --out directory of a training run");
  Recipe out = read_recipe(to_yaml(stored_recipe(request.run)), file.string(), set, true);
  const ModelConfig config = load_config(request.run / "config.json");
  check_usage(!reads_source(config.architecture) && !out.has_translation(), "fit",
              "models that read a source (translators) are not fitted; make the steps by hand: lithe distill "
              "--sequence, lithe prune, lithe quantize");
  check_usage(config.quantization_config.is_null(), "fit", "'", request.run.string(),
              "' is quantised; fit the model that it was made from");
  check_usage(config.token_width <= 1, "fit", "models without a vocabulary (token_width ", config.token_width,
              ") are not fitted");
  return out;
}

// Of the given text; where the run learns from it, too, of the half that is held out.
MeasuringData data_of(const Request& request, const Recipe& recipe) {
  check_usage(!recipe.data.files.empty() || recipe.has_task(), "fit", "'", request.run.string(),
              "' has no texts of its own to learn from after pruning; give some with --text");
  const bool learnt = recipe.data.files == request.text;
  return measuring_data(recipe, load_tokenizers(request.run), 0, request.batches,
                        learnt ? std::vector<std::string>() : request.text);
}

Json json_of_use(const Point& p) {
  Json out = {{"parameters", p.parameters},
              {"latency", p.figures.latency},
              {"memory", p.figures.memory},
              {"size", p.figures.size},
              {"loss", p.loss},
              {"change", p.change},
              {"error", p.error},
              {"directory", p.directory.string()}};
  for (const auto& [name, value] : p.scores) out["scores"][name] = value;
  return out;
}

}  // namespace

Path work_of(const Path& out) {
  const Path named = out.filename().empty() ? out.parent_path() : out;
  return named.string() + ".fit";
}

Workshop::Workshop(const Request& request, const std::function<void(const Path& to)>& companions)
    : request_(request),
      companions_(companions),
      work_(work_of(request.out)),
      set_(own_data(request, read_with(request, {}))),
      recipe_(read_with(request, set_)),
      data_(data_of(request, recipe_)),
      before_(request.run, request.weights) {
  shape_.continues = !data_.prompt.empty();
  const int64_t limit = before_.model().position_limit(), asked = request.length;
  check_usage(!asked || !limit || asked <= limit, "fit", "--length ", asked, " is beyond the model's ", limit,
              " positions; choose that or less");
  shape_.length = asked ? asked : std::min(recipe_.data.sequence_length, kLongestUse);
  if (limit) shape_.length = std::min(shape_.length, limit);
  check_usage(shape_.length >= 4, "fit", "--length must be at least 4, not ", shape_.length);
  for (const Batch& batch : data_.batches) tokens_.insert(tokens_.end(), batch.tokens.begin(), batch.tokens.end());
  check_usage(!tokens_.empty(), "fit", "there is no text to measure on");
  for (size_t i = 0; int64_t(tokens_.size()) < shape_.length; ++i) tokens_.push_back(tokens_[i]);
  before_.judge(data_);
}

std::optional<Path> Workshop::pruned(double share, int64_t steps, bool& stopped) {
  if (share >= 1) return request_.run;
  const Path to = work_ / cat("pruned-", share, "-", steps);
  if (std::filesystem::exists(to / "model.safetensors")) return to;
  log_info("pruning to ", share, " of the parameters", steps ? cat(", with ", steps, " steps of training") : "");
  PruneRequest prune{.model = request_.run,
                     .out = to,
                     .weights = request_.weights,
                     .to = share,
                     .by = "gradient",
                     .batches = request_.batches,
                     .train_steps = steps,
                     .distil = steps > 0,
                     .baseline = false,  // 8 bits are a chain of their own
                     .set = set_};
  Json ignored;
  try {
    if (prune_run(prune, companions_, ignored)) return to;
    stopped = true;
  } catch (const Error& error) {
    if (stop_signal() || error.code() != ExitCode::usage) throw;
    log_warning("share ", share, " is left out: ", error.what());
  }
  return {};
}

InputMoments Workshop::moments(const Model& model) const {
  return input_moments(model, *data_.lessons.train, request_.calibration_tokens, moments_budget(model));
}

std::vector<MatrixBits> Workshop::bits(const Chain& chain) {
  const Path file = work_ / cat("bits-", chain.share, ".json");
  std::vector<MatrixBits> out;
  if (std::filesystem::exists(file)) {
    for (const Json& one : parse_json(read_file(file), file.string())) {
      out.push_back({one["name"], {}});
      for (const Json& choice : one["choices"])
        out.back().choices.push_back({choice["format"], choice["bytes"], choice["change"]});
    }
    return out;
  }
  bool stopped = false;
  const auto from = pruned(chain.share, request_.trial_steps, stopped);
  check(from.has_value(), "fit", "there is no model of share ", chain.share);
  log_info("rounding each matrix alone to 8 and to 4 bits, to see what that changes");
  const LoadedModel loaded = load_model(*from, chain.share < 1 ? std::string() : request_.weights, "f32", false, false);
  // Short windows of a text, where there is one: a batch of training may have many rows, each with a whole vocabulary.
  std::unique_ptr<BatchSource> windows;
  if (data_.lessons.text)
    windows = std::make_unique<BatchOrder>(*data_.lessons.text, shape_.length, shape_.length, 0, true);
  const BatchSource& text = windows ? *windows : *data_.lessons.train;
  out = bit_sensitivity(*loaded.model, {}, {}, text, request_.scan_tokens);
  Json json = Json::array();
  for (const MatrixBits& bits : out) {
    json.push_back({{"name", bits.name}, {"choices", Json::array()}});
    for (const BitChoice& c : bits.choices)
      json.back()["choices"].push_back({{"format", c.format}, {"bytes", c.bytes}, {"change", c.change}});
  }
  write_file(file, dump(json, 2) + "\n");
  return out;
}

void Workshop::round_into(const Path& from, const Chain& chain, const Path& to) {
  const bool first = chain.share >= 1;
  const std::string weights = first ? request_.weights : std::string();
  LoadedModel loaded = load_model(from, weights, chain.precision(), false, false);
  const Path file = to / "model.safetensors";
  ModelConfig config = loaded.model->config();
  if (chain.format == "f32" || chain.format == "bf16") {
    save_weights(*loaded.model, file);
  } else {
    QuantizeOptions options{.integers = chain.format == "mixed" ? "int8" : chain.format, .method = chain.method};
    if (chain.format == "mixed") options.formats = bits_for_size(*loaded.model, bits(chain), chain.target);
    std::vector<QuantizedLayer> layers;
    const InputMoments sums = chain.method == "nearest" ? InputMoments() : moments(*loaded.model);
    config = quantize_model(*loaded.model, options, file, layers, sums)->config();
  }
  save_config(config, to / "config.json");
  save_tokenizers({loaded.tokenizer, loaded.source_tokenizer}, to);
  companions_(to);
  write_file(to / "resolved_recipe.yaml", read_file(from / "resolved_recipe.yaml"));
}

std::optional<Point> Workshop::point(const Chain& chain, bool& stopped) {
  const Path file = work_ / "points" / (chain.key() + ".json");
  Point out{.chain = chain};
  if (std::filesystem::exists(file)) {
    const Json json = parse_json(read_file(file), file.string());
    out.directory = std::string(json["directory"]);
    if (std::filesystem::exists(out.directory / "model.safetensors")) {
      out.parameters = json["parameters"];
      out.figures = {json["latency"], json["memory"], json["size"]};
      out.loss = json["loss"], out.change = json["change"], out.error = json["error"];
      if (json.contains("scores"))
        for (const auto& [name, value] : json["scores"].items()) out.scores.emplace_back(name, double(value));
      return out;
    }
  }
  const auto from = pruned(chain.share, request_.trial_steps, stopped);
  if (!from) return {};
  out.directory = *from;
  if (chain.format != "f32") {
    out.directory = work_ / chain.key();
    log_info("trying ", chain.name());
    if (!std::filesystem::exists(out.directory / "model.safetensors")) try {
        NewDirectory made(out.directory, "fit", true);
        round_into(*from, chain, made.path());
        made.commit();
      } catch (const Error& error) {
        if (error.code() != ExitCode::memory) throw;  // bits by matrix cannot be so few
        log_warning(chain.name(), " is left out: ", error.what());
        return {};
      }
  }
  const bool original = chain.share >= 1 && chain.format == "f32";
  MeasuredModel model(out.directory, original ? request_.weights : std::string(), chain.precision());
  model.judge(data_);
  const Use use = measure_use(model.model(), tokens_, shape_);
  out.parameters = model.model().parameters().count();
  out.figures = {use.seconds, use.peak, model.bytes_on_disk()};
  out.loss = model.loss().mean;
  out.scores = model.scores();
  const Json difference = loss_difference(before_, model);
  out.change = difference["mean"];
  out.error = difference.contains("standard_error") ? double(difference["standard_error"]) : 0;
  make_directory(file.parent_path());
  write_file(file, dump(json_of_use(out), 2) + "\n");
  return out;
}

std::vector<std::pair<double, ModelConfig>> Workshop::shapes(const std::vector<double>& shares) const {
  const LoadedModel loaded = load_model(request_.run, request_.weights, "f32", false, false);
  Model& model = *loaded.model;
  std::vector<std::string> left;
  std::vector<std::pair<double, ModelConfig>> out;
  try {
    const std::vector<PruneGroup> groups = prune_groups(model, {PruneUnit::heads, PruneUnit::ffn}, left);
    const Importance importance = norm_importance(model, groups, NormOf::l2);
    for (const double share : shares) {
      const PruneRequest request{.to = share};
      out.emplace_back(share, pruned_config(model, choose_kept(model.config(), groups, importance, request,
                                                               share * double(model.parameters().count()))));
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;  // no smaller share can be reached
  }
  return out;
}

}  // namespace lithe::fit
