// Workshop: parts exchanged, and the training after that.
#include "lithe/base/counted.h"
#include "lithe/base/log.h"
#include "lithe/base/new_directory.h"
#include "lithe/base/stop.h"
#include "lithe/compress/exchange.h"
#include "lithe/compress/prune_run.h"
#include "lithe/compress/receipt.h"
#include "lithe/fit/workshop.h"
#include "lithe/infer/weights_file.h"
#include "lithe/model/pending_weights.h"

namespace lithe::fit {
namespace {

std::string written(ModelConfig config) {
  return to_json(write_fields([&](Fields& f) { config.fields(f); }));
}

}  // namespace

// The model of the chain with its part exchanged, fitted to what the run learns from where that is text.
void Workshop::write_exchanged_run(const Chain& chain, const Path& to) const {
  const Path weights = weights_file(request_.run, request_.weights);
  const LoadedModel outline = outline_model(request_.run, request_.weights, "f32");
  Tensor ids;
  if (data_.lessons.text) {
    const int64_t count = std::min(request_.calibration_tokens, data_.lessons.text->tokens());
    std::vector<int32_t> some(static_cast<size_t>(count));
    data_.lessons.text->copy(0, count, some.data());
    ids = tensor_of({count}, some);
  }
  const Exchanged e =
      exchange_parts(outline.model->config(), weights_in(weights, *outline.model, "fit"), {chain.exchange}, 1, ids);
  Recipe recipe = recipe_;
  recipe.model = e.config;
  recipe.train.adapters = {};  // all of the model learns after an exchange
  write_exchanged(e, to / "model.safetensors");
  save_config(e.config, to / "config.json");
  save_tokenizers({outline.tokenizer, outline.source_tokenizer}, to);
  companions_(to);
  write_file(to / "resolved_recipe.yaml", to_yaml(resolved(recipe)));
}

std::optional<ModelConfig> Workshop::exchanged_config(const std::string& override_) const {
  if (const auto known = exchanged_configs_.find(override_); known != exchanged_configs_.end()) return known->second;
  const LoadedModel outline = outline_model(request_.run, request_.weights, "f32");
  const ModelConfig& before = outline.model->config();
  std::string why;
  try {
    check_usage(override_.starts_with("model.") && override_.find('=') != std::string::npos, "fit",
                "it must be model.KEY=VALUE, a key of section model");
    const Exchanged e = exchange_parts(
        before, weights_in(weights_file(request_.run, request_.weights), *outline.model, "fit"), {override_});
    // With a text more is fitted, so at least as much stays.
    if (!e.keeps_enough())
      why = "less than 1 % of the numbers keep their place";
    else if (written(e.config) == written(before))
      why = "the model is so already; name another type or value";
    else
      return exchanged_configs_[override_] = e.config;
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    why = std::string(error.what()).substr(error.operation().size() + 2);
  }
  check_usage(request_.exchanges.empty(), "fit", "--exchange ", override_, ": ", why);
  log_info("the exchange ", override_, " is left out: ", why);
  return {};
}

std::optional<Path> Workshop::exchanged(const Chain& chain, int64_t steps, bool& stopped) {
  const std::string key = Chain{.exchange = chain.exchange}.key();
  const Path to = work_ / cat(key, "-", steps), made = work_ / (key + "-made");
  if (std::filesystem::exists(to / "receipt.json")) return to;
  log_info("exchanging ", chain.exchange, steps ? cat(", with ", counted(steps, "step"), " of training") : "");
  if (!std::filesystem::exists(made / "model.safetensors")) {
    try {
      NewDirectory out(made, "fit", true);
      write_exchanged_run(chain, out.path());
      out.commit();
    } catch (const Error& error) {
      if (stop_signal() || error.code() != ExitCode::usage || !request_.exchanges.empty()) throw;
      log_warning("the exchange ", chain.exchange, " is left out: ", error.what());
      return {};
    }
  }
  Path from = made;
  if (steps > 0) {
    const Path trained = work_ / cat(key, "-", steps, "-trained");
    const PruneRequest training{
        .model = request_.run, .weights = request_.weights, .train_steps = steps, .distil = true, .set = set_};
    if (!train_smaller(training, made, trained)) {
      stopped = true;
      return {};
    }
    from = trained;
  }
  NewDirectory out(to, "fit", true);
  for (const char* name : {"config.json", "resolved_recipe.yaml"}) write_file(out / name, read_file(made / name));
  save_tokenizers(load_tokenizers(made), out.path());
  std::filesystem::copy_file(from / "model.safetensors", out / "model.safetensors");
  companions_(out.path());
  Recipe recipe = recipe_;
  recipe.model = load_config(made / "config.json");
  write_receipt({.operation = "convert",
                 .parent = request_.run,
                 .parent_weights = request_.weights,
                 .child = out.path(),
                 .recipe = recipe,
                 .batches = request_.batches,
                 .settings = {{"set", Json::array({chain.exchange})}, {"train_steps", steps}},
                 .text = data_.name == "given text" ? request_.text : std::vector<std::string>(),
                 .baseline = false});
  out.commit();
  return to;
}

}  // namespace lithe::fit
