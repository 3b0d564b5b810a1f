#include "lithe/fit/workshop.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/base/new_directory.h"
#include "lithe/base/stop.h"
#include "lithe/compress/prune_run.h"
#include "lithe/data/documents.h"
#include "lithe/data/examples_readers.h"
#include "lithe/data/text_file.h"
#include "lithe/eval/translation_evaluation.h"
#include "lithe/infer/weights_file.h"
#include "lithe/model/quantized_weights.h"

namespace lithe::fit {
namespace {

constexpr int64_t kLongestUse = 128;
constexpr size_t kVectors = 256;
constexpr double kChance = 0.1;                // nats below the loss of uniform predictions
constexpr size_t kSentences = 24, kLines = 8;  // that are translated in a trial, and in a real run

// Keys of the recipe that have the run learn from the given text and hold half of it out, where its own texts are gone.
std::vector<std::string> own_data(const Request& request, const Recipe& recipe) {
  if (recipe.has_task() || recipe.has_translation() || !recipe.data.files.empty() || request.text.empty()) return {};
  return {cat("data.files=", dump(Json(request.text))), "data.validation_fraction=0.5"};
}

Recipe read_with(const Request& request, const std::vector<std::string>& set) {
  const Path file = request.run / "resolved_recipe.yaml";
  check_usage(std::filesystem::exists(file), "fit", "'", request.run.string(),
              "' has no resolved_recipe.yaml; give the --out directory of a training run");
  Recipe out = read_recipe(to_yaml(stored_recipe(request.run)), file.string(), set, true);
  const ModelConfig config = load_config(request.run / "config.json");
  check_usage(reads_source(config.architecture) == out.has_translation() && config.source_names().size() <= 1, "fit",
              "of models that read a source, translators with one encoder are fitted; make the steps by hand: lithe "
              "distill --sequence, lithe prune, lithe quantize");
  check_holds_numbers(config, "fit", cat("'", request.run.string(), "'"));
  check_usage(config.token_width <= 1, "fit", "models without a vocabulary (token_width ", config.token_width,
              ") are not fitted");
  return out;
}

// Of the given text; where the run learns from it, too, of the half that is held out.
MeasuringData data_of(const Request& request, const Recipe& recipe) {
  check_usage(request.text.empty() || !recipe.has_translation(), "fit",
              "--text is for models of text; a translator is measured on the pairs that its run holds out");
  check_usage(!recipe.data.files.empty() || recipe.has_task() || recipe.has_translation(), "fit", "'",
              request.run.string(), "' has no texts of its own to learn from after pruning; give some with --text");
  const bool learnt = recipe.data.files == request.text;
  return measuring_data(recipe, load_tokenizers(request.run), 0, request.batches,
                        learnt ? std::vector<std::string>() : request.text);
}

// Non-blank lines of the given text, evenly from all of it.
std::vector<std::string> sample_of_lines(const Request& request) {
  check_usage(!request.text.empty(), "fit", "'", request.run.string(),
              "' predicts masked words no better than chance, so its vectors of texts are compared; give texts with "
              "--text");
  std::vector<std::string> all, out;
  for (const std::string& pattern : request.text)
    for (const Path& path : glob(pattern)) {
      const std::string text = read_text(path, "fit");
      for (std::string_view rest = text; !rest.empty();)
        if (const std::string_view line = take_line(rest); !is_blank(line)) all.emplace_back(line);
    }
  const size_t count = std::min(kVectors, all.size());
  for (size_t i = 0; i < count; ++i) out.push_back(all[i * all.size() / count]);
  return out;
}

}  // namespace

Path work_of(const Path& out) { return beside(out, ".fit"); }

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
  // Where positions have no limit, texts are no longer than those that the model was made for.
  const int64_t most =
      limit ? limit : std::max(recipe_.data.sequence_length, before_.model().config().max_position_embeddings);
  check_usage(!asked || asked <= most, "fit", "--length ", asked, " is beyond the ", most,
              limit ? " positions of the model" : " tokens that the model is made for", "; choose that or less");
  shape_.length = asked ? asked : std::min(recipe_.data.sequence_length, kLongestUse);
  if (limit) shape_.length = std::min(shape_.length, limit);
  check_usage(shape_.length >= 4, "fit", "--length must be at least 4, not ", shape_.length);
  for (const Batch& batch : data_.batches) tokens_.insert(tokens_.end(), batch.tokens.begin(), batch.tokens.end());
  check_usage(!tokens_.empty(), "fit", "there is no text to measure on");
  for (size_t i = 0; int64_t(tokens_.size()) < shape_.length; ++i) tokens_.push_back(tokens_[i]);
  before_.judge(data_);
  if (!shape_.continues && !recipe_.has_task() && !recipe_.has_translation() &&
      before_.loss().mean > std::log(double(before_.model().config().vocab_size)) - kChance) {
    lines_ = sample_of_lines(request);
    log_info("the model predicts masked words no better than chance; chains are compared by their vectors of ",
             lines_.size(), " lines");
  }
  if (!recipe_.has_translation()) return;
  const auto* held_out = dynamic_cast<const HeldOutTranslations*>(data_.lessons.held_out.get());
  check_usage(held_out && !held_out->batches().pairs().empty(), "fit", "'", request.run.string(),
              "' holds no pairs out that its translations could be compared with; name some as translation.validation "
              "and train again");
  check_usage(!asked, "fit", "--length is for models of text; a translator's sentences are as long as they are");
  const std::vector<TextPair>& pairs = held_out->batches().pairs();
  for (size_t i = 0; i < std::min(kSentences, pairs.size()); ++i)
    pairs_.push_back(pairs[i * pairs.size() / std::min(kSentences, pairs.size())]);
  const Tokenizer& source = data_.lessons.source_tokenizer ? *data_.lessons.source_tokenizer : *data_.lessons.tokenizer;
  int64_t tokens = 0;
  for (const TextPair& pair : pairs_) tokens += int64_t(source.encode(pair.source).size()) + 1;
  const int64_t mean = tokens / int64_t(pairs_.size());
  shape_ = {.translates = true,
            .length = std::max<int64_t>(1, limit ? std::min(mean, limit - 1) : mean),
            .beams = recipe_.translate.num_beams};
}

std::string Workshop::text() const {
  std::string out;
  if (shape_.translates) {
    for (size_t i = 0; i < std::min(kLines, pairs_.size()); ++i) {
      std::string line = pairs_[i].source;
      std::replace(line.begin(), line.end(), '\n', ' ');
      out += (i ? "\n" : "") + line;
    }
    return out;
  }
  // Its text may be cut into more tokens than it was made of.
  const int64_t prompt = shape_.continues ? shape_.length / 4 : shape_.length / 2;
  std::vector<int32_t> ids;
  for (const int32_t id : tokens_)
    if (int64_t(ids.size()) < prompt && !data_.lessons.tokenizer->is_special(id)) ids.push_back(id);
  out = data_.lessons.tokenizer->decode(ids);
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

std::optional<Path> Workshop::base(const Chain& chain, int64_t steps, bool& stopped) {
  return chain.exchange.empty() ? pruned(chain.share, steps, stopped) : exchanged(chain, steps, stopped);
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
  const Path file =
      work_ /
      cat("bits-", chain.exchange.empty() ? cat(chain.share) : Chain{.exchange = chain.exchange}.key(), ".json");
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
  const auto from = base(chain, request_.trial_steps, stopped);
  check(from.has_value(), "fit", "there is no model of '", chain.plain().name(), "'");
  log_info("rounding each matrix alone to 8 and to 4 bits, to see what that changes");
  const LoadedModel loaded = load_model(*from, chain.whole() ? request_.weights : std::string(), "f32", false, false);
  // Short windows of a text, where there is one, else small batches: one of training may have many rows, each with a
  // whole vocabulary.
  std::unique_ptr<BatchSource> windows;
  std::optional<MeasuringData> few;
  if (data_.lessons.text) {
    windows = std::make_unique<BatchOrder>(*data_.lessons.text, shape_.length, shape_.length, 0, true);
  } else {
    Recipe small = recipe_;
    const int64_t length = recipe_.data.sequence_length, texts = std::max<int64_t>(1, request_.scan_tokens / length);
    small.train.batch_tokens = std::min(recipe_.train.micro_batch_tokens(), texts * length);
    small.train.gradient_accumulation_steps = 1;
    few = data_of(request_, small);
  }
  out = bit_sensitivity(*loaded.model, {}, {}, windows ? *windows : *few->lessons.train, request_.scan_tokens);
  Json json = Json::array();
  for (const MatrixBits& bits : out) {
    json.push_back({{"name", bits.name}, {"choices", Json::array()}});
    for (const BitChoice& c : bits.choices)
      json.back()["choices"].push_back({{"format", c.format}, {"bytes", c.bytes}, {"change", c.change}});
  }
  write_file(file, dump(json, 2) + "\n");
  return out;
}

bool Workshop::round_into(const Path& from, const Chain& chain, const Path& to, int64_t steps) {
  if (chain.way.draft == "pruned") {
    const Chain drafter{.share = chain.way.draft_share, .format = "int8"};
    bool stopped = false;
    const auto of = pruned(drafter.share, steps, stopped);
    if (!of) return false;
    make_directory(to / kDrafter);
    if (!round_into(*of, drafter, to / kDrafter, steps)) return false;
  }
  const std::string weights = chain.whole() ? request_.weights : std::string();
  LoadedModel loaded = load_model(from, weights, chain.precision(), false, false);
  const Path file = to / "model.safetensors";
  ModelConfig config = loaded.model->config();
  if (chain.format == "f32" || chain.format == "bf16") {
    save_weights(*loaded.model, file);
  } else {
    QuantizeOptions options{.integers = chain.format == "mixed" ? "int8" : chain.format, .method = chain.method};
    if (chain.format == "mixed") options.formats = bits_for_size(*loaded.model, options, bits(chain), chain.target);
    std::vector<QuantizedLayer> layers;
    const InputMoments sums = chain.method == "nearest" ? InputMoments() : moments(*loaded.model);
    config = quantize_model(*loaded.model, options, file, layers, sums)->config();
  }
  save_config(config, to / "config.json");
  save_tokenizers({loaded.tokenizer, loaded.source_tokenizer}, to);
  companions_(to);
  write_file(to / "resolved_recipe.yaml", read_file(from / "resolved_recipe.yaml"));
  return true;
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
