#include "lithe/compress/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/new_directory.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/text_lines.h"
#include "lithe/compress/measured_model.h"
#include "lithe/compress/receipt.h"
#include "lithe/data/corpus.h"
#include "lithe/data/task_batches.h"
#include "lithe/eval/finite_result.h"
#include "lithe/eval/translation_evaluation.h"
#include "lithe/infer/load.h"
#include "lithe/infer/weights_file.h"
#include "lithe/interchange/import_parts.h"
#include "lithe/model/pending_weights.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/recipe/recipe.h"
#include "lithe/report/format.h"
#include "lithe/train/plan.h"
#include "lithe/train/rounded_training.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

struct QuantizeArguments {
  std::string model, out, source, format = "int8", precision = "f32";
  std::string method = "nearest", size;
  std::vector<std::string> keep, files, calibration_files;
  int64_t calibration_tokens = 16384, scan_tokens = 1024;
  int64_t context = 0, max_tokens = 4096;
  std::optional<int64_t> group_size;
  bool overwrite = false, no_receipt = false, json = false;
};

constexpr int64_t kGroupSize = 32;

// What to measure on: texts, or a translator's held-out pairs; none when the run has none, or its data are no longer
// there.
std::unique_ptr<BatchSource> text_of(const QuantizeArguments& o, const Recipe& recipe, const LoadedModel& loaded) {
  const Model& model = *loaded.model;
  // data.sequence_length also counts rows of pictures and sounds that have no position of the model's.
  const int64_t limit = model.position_limit(), length = recipe.data.sequence_length,
                context = o.context ? o.context
                          : limit   ? std::min(length, limit)
                                    : length;
  check_usage(!limit || context <= limit, "quantize", "context-length ", context, " is beyond the model's ", limit,
              " positions; choose that or less");
  const auto windows = [&](const TokenStore& text) {
    check_usage(text.info().vocab_size <= model.config().vocab_size, "quantize", "the text's ids go up to ",
                text.info().vocab_size, ", the model's vocabulary has ", model.config().vocab_size);
    return std::make_unique<BatchOrder>(text, context, context, 0, false);
  };
  check_usage(o.files.empty() || !recipe.has_translation(), "quantize",
              "--text is for models of text; a translator is measured on its run's validation pairs");
  if (!o.files.empty())
    return windows(tokenize_in_memory(Corpus(readable(o.files), corpus_options(recipe.data)), *loaded.tokenizer));
  if (recipe.has_task()) {
    log_warning("the run has learnt from examples: predictions are not compared; name texts with --text");
    return nullptr;
  }
  try {
    if (recipe.has_translation()) {
      TranslationConfig held_out = recipe.translation;
      held_out.train = {};
      TranslationData pairs = load_translation(held_out);
      if (!pairs.validation.empty()) {
        auto batches = std::make_unique<TranslationBatches>(
            held_out_translations(std::move(pairs.validation), {loaded.tokenizer, loaded.source_tokenizer}, recipe.data,
                                  recipe.train.batch_tokens, recipe.translation.cut_sources));
        batches->give_only(model.config().source_names());
        return batches;
      }
    } else if (auto data = load_dataset(recipe.data, loaded.tokenizer); data.validation) {
      return windows(*data.validation);
    }
    log_warning("the run has no held-out text: predictions are not compared; name texts with --text");
  } catch (const Error& error) {
    if (stop_signal()) throw;
    log_warning("predictions are not compared, or name texts with --text: ", error.what());
  }
  return nullptr;
}

// What methods that look at rows look at: given texts, or the run's own.
std::unique_ptr<BatchSource> calibration_text(const QuantizeArguments& o, const Recipe& recipe,
                                              const LoadedModel& loaded) {
  const int64_t context = o.context ? o.context : recipe.data.sequence_length;
  const auto windows = [&](const TokenStore& text) {
    return std::make_unique<BatchOrder>(text, context, context, 0, true);
  };
  if (!o.calibration_files.empty()) {
    check_usage(!recipe.has_translation() && !recipe.has_task(), "quantize",
                "--calibration-text is for models of text; other models use their training data");
    return windows(
        tokenize_in_memory(Corpus(readable(o.calibration_files), corpus_options(recipe.data)), *loaded.tokenizer));
  }
  if (recipe.has_translation()) {
    TranslationConfig config = recipe.translation;
    config.validation = config.test = {};
    return std::make_unique<TranslationBatches>(
        load_translation(config).train, loaded.source_tokenizer ? loaded.source_tokenizer : loaded.tokenizer,
        loaded.tokenizer, TranslationLimits{.max_length = recipe.data.sequence_length, .leave_out = true},
        recipe.train.batch_tokens, 1, true);
  }
  if (recipe.has_task()) {
    TaskConfig config = recipe.task;
    config.validation = config.test = {};
    return std::make_unique<TaskBatches>(load_task(config, loaded.model->config().label_names).train,
                                         task_type(recipe.task), *loaded.tokenizer, recipe.data.sequence_length,
                                         recipe.train.batch_tokens, 1, true, task_reading(recipe));
  }
  return windows(load_dataset(recipe.data, loaded.tokenizer).train);
}

Json json_of(const QuantizeArguments& o, const std::vector<QuantizedLayer>& layers, const PredictionChange* change,
             int64_t bytes_before, int64_t bytes_after, const std::vector<MatrixBits>& scan) {
  Json json = {{"weights", o.size.empty() ? o.format : "mixed"},
               {"method", o.method},
               {"bytes_before", bytes_before},
               {"bytes_after", bytes_after}};
  if (!o.size.empty()) json["size"] = parse_bytes(o.size, "quantize", "--size");
  if (o.format != "int8" || !o.size.empty()) json["group_size"] = o.group_size.value_or(kGroupSize);
  json["layers"] = Json::array();
  for (const QuantizedLayer& layer : layers) {
    Json one = {{"name", layer.name},
                {"shape", {layer.shape[0], layer.shape[1]}},
                {"format", layer.format},
                {"bytes_before", layer.bytes_before},
                {"bytes_after", layer.bytes_after},
                {"weight_error", layer.weight_error}};
    if (layer.output_error) one["output_error"] = *layer.output_error;
    for (const MatrixBits& bits : scan)
      for (const BitChoice& choice : bits.choices)
        if (bits.name == layer.name && choice.format != "kept") one["changes_alone"][choice.format] = choice.change;
    json["layers"].push_back(one);
  }
  if (change)
    json["predictions"] = {{"tokens", change->tokens},
                           {"perplexity_before", std::exp(change->nll_before)},
                           {"perplexity_after", std::exp(change->nll_after)},
                           {"loss_before", change->nll_before},
                           {"loss_after", change->nll_after},
                           {"kl_divergence", change->kl},
                           {"same_choice", change->same_choice}};
  return json;
}

void print_table(const std::vector<QuantizedLayer>& layers, const PredictionChange* change, int64_t bytes_before,
                 int64_t bytes_after) {
  size_t width = 6;
  for (const QuantizedLayer& layer : layers) width = std::max(width, layer.name.size());
  std::printf("%-*s  %-6s  %10s  %10s  %8s  %8s\n", int(width), "matrix", "format", "before", "after", "weights",
              "outputs");
  const auto bytes = [](int64_t n) { return report::format(double(n), report::Quantity::bytes); };
  for (const QuantizedLayer& layer : layers) {
    std::printf("%-*s  %-6s  %10s  %10s", int(width), layer.name.c_str(), layer.format.c_str(),
                bytes(layer.bytes_before).c_str(), bytes(layer.bytes_after).c_str());
    if (layer.format == "kept")
      std::printf("  %8s", "-");
    else
      std::printf("  %7.3f%%", 100 * layer.weight_error);
    if (layer.output_error)
      std::printf("  %7.3f%%\n", 100 * *layer.output_error);
    else
      std::printf("  %8s\n", "-");
  }
  std::printf("file              %s -> %s (%.2fx smaller)\n", bytes(bytes_before).c_str(), bytes(bytes_after).c_str(),
              double(bytes_before) / double(bytes_after));
  if (!change) return;
  std::printf(
      "token perplexity  %.3f -> %.3f on %lld tokens\nKL divergence     %.3g per token\nsame choice       %.2f%%\n",
      std::exp(change->nll_before), std::exp(change->nll_after), static_cast<long long>(change->tokens), change->kl,
      100 * change->same_choice);
}

// Writes the rounded weights. Nothing but a matrix at a time is in memory, unless the method, or the budget of bytes,
// looks at what the model makes of a text.
ModelConfig round_weights(const QuantizeArguments& o, const Recipe& recipe, const LoadedModel& outline, int64_t size,
                          QuantizeOptions& options, const Path& file, std::vector<QuantizedLayer>& layers,
                          std::vector<MatrixBits>& scan) {
  std::optional<LoadedModel> loaded;
  std::unique_ptr<BatchSource> text;
  InputMoments moments;
  if (o.method != "nearest" || size) {
    text = calibration_text(o, recipe, outline);
    loaded = load_model(o.model, o.source, o.precision, false, false);
    Model& model = *loaded->model;
    if (o.method != "nearest") moments = input_moments(model, *text, o.calibration_tokens, moments_budget(model));
    if (size) {
      log_info("rounding each matrix alone to 8 and to 4 bits, to see what that changes");
      scan = bit_sensitivity(model, options, moments, *text, o.scan_tokens);
      options.formats = bits_for_size(model, options, scan, size);
    }
  }
  const auto numbers = weights_in(weights_file(o.model, o.source), *outline.model, "quantize");
  return write_quantized(*outline.model, numbers, options, file, layers, moments);
}

// None where there is no text, or the memory does not hold both models.
std::optional<PredictionChange> change_of_predictions(const QuantizeArguments& o, const Recipe& recipe,
                                                      const LoadedModel& outline, const Path& rounded,
                                                      std::vector<QuantizedLayer>& layers) {
  const auto text = text_of(o, recipe, outline);
  if (!text) return {};
  const int64_t bytes = outline.model->parameters().bytes() + int64_t(fs::file_size(rounded / "model.safetensors"));
  if (const int64_t left = memory_left(); left && bytes > left) {
    log_warning("predictions are not compared: both models need ", format_bytes(double(bytes)), ", and ",
                format_bytes(double(left)), " are left");
    return {};
  }
  const LoadedModel before = load_model(o.model, o.source, o.precision, false, false),
                    after = load_model(rounded, "", o.precision, false, false);
  return compare_predictions(*before.model, *after.model, *text, o.max_tokens, layers);
}

int run_quantize(const QuantizeArguments& o) {
  catch_stop_signals();
  check_usage(!o.group_size || o.format != "int8" || !o.size.empty(), "quantize",
              "--group-size is for --weights int4, int2 and ternary, and for --size");
  const int64_t size = o.size.empty() ? 0 : parse_bytes(o.size, "quantize", "--size");
  const Recipe recipe = recipe_of_run(o.model);
  NewDirectory out(o.out, "quantize", o.overwrite);
  const LoadedModel outline = outline_model(o.model, o.source, o.precision);
  check_holds_numbers(outline.model->config(), "quantize", cat("'", o.model, "'"));

  std::vector<QuantizedLayer> layers;
  // A model that was trained for these integers is rounded as it was trained.
  const RoundedTraining& trained = recipe.train.rounding;
  const bool as_trained = trained.weights == o.format;
  if ((o.format == "ternary" || o.format == "int2") && !as_trained)
    log_warning("the model was not trained for --weights ", o.format,
                ", and most predictions will change; train with train.rounding.weights: ", o.format,
                ", or choose int4 or int8");
  QuantizeOptions options{.group_size = o.group_size.value_or(as_trained ? trained.group_size : kGroupSize),
                          .keep = as_trained && o.keep.empty() ? trained.keep : o.keep,
                          .integers = o.format,
                          .method = o.method};
  if (as_trained && trained.learns_steps()) {
    check_usage(
        o.method == "nearest" && options.group_size == trained.group_size && o.size.empty(), "quantize",
        "the model learned the steps of its integers (train.rounding); leave --method, --size and --group-size out");
    options.steps = RoundedWeights::learned_steps(weights_file(o.model, o.source));
  }
  std::vector<MatrixBits> scan;
  save_config(round_weights(o, recipe, outline, size, options, out / "model.safetensors", layers, scan),
              out / "config.json");
  save_tokenizers({outline.tokenizer, outline.source_tokenizer}, out.path());
  std::optional<PredictionChange> change;
  if (!o.no_receipt) change = change_of_predictions(o, recipe, outline, out.path(), layers);
  if (change)
    for (const auto& [what, value] : {std::pair<const char*, double>{"its loss", change->nll_before},
                                      {"the loss of its rounded weights", change->nll_after},
                                      {"the KL divergence of its rounded weights", change->kl}})
      check_finite_result("quantize", what, value);
  int64_t before = 0;
  for (const Parameter& p : outline.model->parameters().all()) before += p.master.value().bytes();
  const auto after = int64_t(fs::file_size(out / "model.safetensors"));
  QuantizeArguments used = o;
  used.group_size = options.group_size;
  check(!size || after <= size, "quantize", "the file has ", after, " bytes, above --size ", size);
  const Json json = json_of(used, layers, change ? &*change : nullptr, before, after, scan);

  copy_companions(o.model, out.path());
  if (const Path recipe = Path(o.model) / "resolved_recipe.yaml"; fs::exists(recipe))
    write_file(out / "resolved_recipe.yaml", read_file(recipe));
  write_file(out / "quantization.json", dump(json, 2) + "\n");
  Json settings = {{"weights", json["weights"]}, {"method", o.method}, {"keep", options.keep}};
  if (json.contains("group_size")) settings["group_size"] = json["group_size"];
  if (size) settings["size"] = size;
  const bool from_input = std::find(o.files.begin(), o.files.end(), "-") != o.files.end();
  if (!o.no_receipt)
    write_receipt({.operation = "quantize",
                   .parent = o.model,
                   .parent_weights = o.source,
                   .child = out.path(),
                   .recipe = recipe,
                   .settings = settings,
                   .text = from_input || recipe.has_task() ? std::vector<std::string>() : o.files,
                   .baseline = false,
                   .child_precision = o.precision});
  out.commit();
  if (o.json)
    std::cout << dump(json, 2) << "\n";
  else
    print_table(layers, change ? &*change : nullptr, before, after);
  return 0;
}

}  // namespace

Command add_quantize(CommandLine& app) {
  auto o = std::make_shared<QuantizeArguments>();
  app.add_option("model", o->model, "directory of a training run").required();
  app.add_option("--out", o->out, "new directory for the quantised model, which generate and eval take as it is")
      .output({.kind = OutputRule::Kind::new_directory})
      .required();
  app.add_flag("--overwrite", o->overwrite,
               "replace the output of an earlier lithe quantize in --out, and nothing else");
  const Option weights =
      app.add_option(
             "--weights", o->format,
             "int8: 8 bits, a scale per output; int4: 4 bits, a scale per group of inputs; int2 (-2 to 1) and ternary "
             "(-1 "
             "to "
             "1): the same with few of the integers, for models that were trained so (train.rounding), stored as int4")
          .one_of(kWeightIntegers);
  app.add_option("--size", o->size,
                 "in place of --weights: largest size of the file, like 20MB; each matrix gets 4 bits, gets 8 bits, or "
                 "is not rounded, by the change of the predictions when it alone is rounded")
      .excludes(weights);
  app.add_option("--scan-tokens", o->scan_tokens, "with --size: tokens on which this change is measured").positive();
  app.add_option("--group-size", o->group_size, "int4, int2, ternary: inputs that share a scale, 32 or 64")
      .one_of({"32", "64"});
  app.add_option(
         "--method", o->method,
         "nearest: each number to the nearest integer; gptq: one input after another; the inputs that follow correct "
         "the error of products with the rows of a text [Frantar et al. 2023]; awq: step sizes with the least error, "
         "where each input counts by the size of these rows [Lin et al. 2024, without its factors of channels]")
      .one_of({"nearest", "gptq", "awq"});
  app.add_option("--calibration-text", o->calibration_files,
                 "gptq, awq, --size: text files to learn from; default: the training text of the run")
      .repeatable();
  app.add_option("--calibration-tokens", o->calibration_tokens, "gptq, awq: number of tokens to learn from").positive();
  app.add_option("--keep", o->keep, "parameters that are not rounded, by name; * matches any text (repeatable)")
      .repeatable();
  app.add_option("--from", o->source, "best, averaged, or a safetensors file; default: the last checkpoint's weights");
  app.add_option("--precision", o->precision, "type of the parameters that are not rounded: f32 or bf16")
      .one_of({"f32", "bf16"});
  const Option text = app.add_option("--text", o->files,
                                     "text files to measure on (-: standard input); default: the run's held-out text");
  app.add_option("--context-length", o->context, "tokens in a window; default: the recipe's").positive();
  const Option most =
      app.add_option("--max-tokens", o->max_tokens, "largest number of tokens to measure on").positive();
  app.add_flag("--no-receipt", o->no_receipt,
               "round and write alone: nothing is measured, and one matrix stands in memory at a time")
      .excludes(text)
      .excludes(most);
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe quantize runs/first --out runs/first-int8 --weights int8\nThe table shows for each matrix its "
      "bytes, and the relative errors of its weights and of its outputs on\nthe text. Below it is the change of the "
      "predictions. quantization.json in the new directory has the same figures.");
  return [o] { return run_quantize(*o); };
}

}  // namespace lithe
