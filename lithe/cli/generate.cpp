#include <cstdio>
#include <iostream>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/neighbour_options.h"
#include "lithe/cli/text_lines.h"
#include "lithe/infer/generate.h"
#include "lithe/infer/load.h"
#include "lithe/infer/speculative.h"
#include "lithe/nn/exits.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/plan.h"

namespace lithe {
namespace {

struct GenerateOptions {
  std::string model, weights, precision = "f32", prompts_file, draft;
  std::optional<std::string> exit;
  std::optional<double> early_stop;
  std::vector<std::string> prompts;
  std::optional<std::string> cache_type;
  std::optional<int64_t> max_new_tokens, top_k, seed, batch_size, cache_tokens;
  std::optional<int64_t> samples;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  DatastoreOptions datastore;
  int64_t draft_tokens = 4;
  std::vector<std::string> stop;
  bool greedy = false, no_cache = false, json = false, times = false, el_rewrite = false;
};

void log_times(const GenerateTimes& t) {
  const auto rate = [](int64_t tokens, double seconds) { return double(tokens) / std::max(seconds, 1e-9); };
  log_info("prefill ", t.prompt_tokens, " tokens in ", t.prefill_seconds, " s (",
           rate(t.prompt_tokens, t.prefill_seconds), " tokens/s); decode ", t.new_tokens, " tokens in ",
           t.decode_seconds, " s (", rate(t.new_tokens, t.decode_seconds), " tokens/s); decode state ",
           format_bytes(double(t.peak_state_bytes)), " in ", format_bytes(double(t.peak_state_allocated)));
}

int run_generate(const GenerateOptions& o) {
  catch_stop_signals();
  check_usage(!o.greedy || !(o.temperature || o.top_k || o.top_p || o.min_p), "generate",
              "--greedy takes the most likely token, "
              "so that ",
              o.temperature ? "--temperature"
              : o.top_k     ? "--top-k"
              : o.top_p     ? "--top-p"
                            : "--min-p",
              " has nothing to do; leave out one of them");
  GenerateConfig config = recipe_of_run(o.model).generate;
  take_given(config.max_new_tokens, o.max_new_tokens);
  take_given(config.top_k, o.top_k);
  take_given(config.seed, o.seed);
  take_given(config.batch_size, o.batch_size);
  take_given(config.cache_tokens, o.cache_tokens);
  take_given(config.cache_dtype, o.cache_type);
  take_given(config.temperature, o.temperature);
  take_given(config.top_p, o.top_p);
  take_given(config.min_p, o.min_p);
  take_given(config.num_return_sequences, o.samples);
  take_given(config.repetition_penalty, o.repetition_penalty);
  take_given(config.exit, o.exit);
  if (o.early_stop) config.early_stop = true, config.early_stop_margin = *o.early_stop;
  if (!o.stop.empty()) config.stop = o.stop;
  if (o.greedy) config.do_sample = false;
  if (o.no_cache) config.use_cache = false;
  config.validate();

  std::vector<std::string> prompts = o.prompts;
  if (!o.prompts_file.empty())
    for (std::string& line : text_lines({o.prompts_file})) prompts.push_back(std::move(line));
  check_usage(o.prompts_file.empty() || prompts.size() > o.prompts.size(), "generate", "'", o.prompts_file,
              "' holds no prompt; write one a line");
  if (prompts.empty()) prompts.push_back(config.prompt);
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision, o.el_rewrite);
  const std::optional<NeighbourModel> neighbours = neighbours_of(o.datastore, o.model, o.weights, loaded);
  check_usage(!neighbours || o.draft.empty(), "generate",
              "--draft checks tokens by the model alone; leave out --draft or --datastore");
  // Texts of one prompt stand beside each other; each has random numbers of its own.
  const auto samples = size_t(config.num_return_sequences);
  if (samples > 1) {
    std::vector<std::string> repeated;
    for (const std::string& prompt : prompts) repeated.insert(repeated.end(), samples, prompt);
    prompts = std::move(repeated);
  }

  const bool streaming = prompts.size() == 1 && !o.json;
  bool begun = false;  // the prompt is shown when it is known to be accepted
  const auto begin = [&] {
    if (!std::exchange(begun, true)) std::cout << prompts[0];
  };
  GenerateEvents events;
  if (streaming)
    events.on_text = [&](size_t, std::string_view piece) {
      begin();
      std::cout << piece;
      flush_results();
    };
  size_t done = 0, at_limit = 0;
  events.on_done = [&](size_t i, Generation&& result) {
    ++done;
    at_limit += result.finish == "positions";
    if (o.json) {
      Json json = {{"prompt", prompts[i]},
                   {"text", result.text},
                   {"finish", result.finish},
                   {"prompt_tokens", result.prompt_tokens},
                   {"new_tokens", result.tokens.size()}};
      if (samples > 1) json["sample"] = i % samples + 1;
      std::cout << dump(json, -1, Invalid::replaced) << "\n";
    } else if (streaming) {
      begin();
      std::cout << "\n";
    } else {
      std::cout << "==> " << i / samples + 1 << (samples > 1 ? cat(", sample ", i % samples + 1) : "") << "\n"
                << prompts[i] << result.text << "\n";
    }
    flush_results();
  };
  GenerateTimes times;
  SpeculativeTimes drafted;
  if (o.draft.empty()) {
    generate_each(*loaded.model, *loaded.tokenizer, prompts, config, neighbours ? &*neighbours : nullptr, events,
                  &times);
  } else {
    LoadedModel small;
    const bool by_text = o.draft == "lookup" || o.draft == "prompt", by_exit = o.draft.starts_with("exit:");
    if (!by_text && !by_exit) small = load_model(o.draft, "", o.precision);
    check_usage(!small.tokenizer || small.tokenizer->fingerprint() == loaded.tokenizer->fingerprint(), "generate",
                "the drafter '", o.draft, "' has another tokenizer than the model; give one with the same");
    const auto drafter =
        by_exit       ? exit_drafter(*loaded.model, int64_t(exit_rule_named("layer" + o.draft.substr(4)).threshold),
                                     *loaded.tokenizer, config)
        : small.model ? model_drafter(*small.model, *loaded.tokenizer, config)
                      : lookup_drafter();
    generate_speculative(*loaded.model, *drafter, o.draft_tokens, *loaded.tokenizer, prompts, config, events, &times,
                         &drafted);
  }
  if (o.times || !o.prompts_file.empty()) {
    log_times(times);
    if (times.mean_layers > 0)
      log_info("exits ", config.exit, ": ", times.mean_layers, " of ", loaded.model->config().num_hidden_layers,
               " layers a token");
    if (drafted.passes)
      log_info("drafted ", drafted.drafted, " tokens, ", drafted.taken, " taken; ",
               double(drafted.taken) / double(drafted.passes) + 1, " tokens a pass");
  }
  if (o.json && o.times) {
    Json json = {{"prompt_tokens", times.prompt_tokens},
                 {"new_tokens", times.new_tokens},
                 {"prefill_seconds", times.prefill_seconds},
                 {"decode_seconds", times.decode_seconds},
                 {"tokens_per_second", double(times.new_tokens) / std::max(times.decode_seconds, 1e-9)}};
    if (times.mean_layers > 0) json["mean_layers"] = times.mean_layers;
    if (drafted.passes) {
      json["drafted"] = drafted.drafted;
      json["taken"] = drafted.taken;
      json["acceptance"] = double(drafted.taken) / double(std::max<int64_t>(drafted.drafted, 1));
      json["tokens_per_pass"] = double(drafted.taken) / double(drafted.passes) + 1;
    }
    std::cout << dump(Json({{"times", json}}), -1, Invalid::replaced) << "\n";
  }
  if (at_limit)
    log_info(at_limit, " of ", prompts.size(), " texts ended at the model's last position (it has ",
             loaded.model->position_limit(), "), before ", config.max_new_tokens, " new tokens");
  if (done < prompts.size()) log_info("stopped: ", prompts.size() - done, " of ", prompts.size(), " prompts not begun");
  if (stop_signal()) return 128 + stop_signal();
  return 0;
}

}  // namespace

Command add_generate(CommandLine& app) {
  auto o = std::make_shared<GenerateOptions>();
  app.add_option("model", o->model, "directory of a training run").required();
  app.add_option("--prompt", o->prompts, "text to continue (repeatable); default: the recipe's generate.prompt")
      .repeatable();
  app.add_option("--prompts-file", o->prompts_file, "a file with one prompt a line; -: standard input");
  add_weights_options(app, o->weights, o->precision);
  add_el_rewrite_option(app, o->el_rewrite);
  app.add_option("--max-new-tokens", o->max_new_tokens, "most tokens to add").positive();
  app.add_flag("--greedy", o->greedy, "always the most likely token");
  app.add_option("--temperature", o->temperature, "below 1 favours likely tokens, above 1 evens them out; 0 is greedy");
  app.add_option("--top-k", o->top_k, "sample from the k most likely tokens only").non_negative();
  app.add_option("--top-p", o->top_p, "sample from the smallest set of tokens with this total probability");
  app.add_option("--min-p", o->min_p,
                 "sample no token less likely than this share of the most likely one's probability");
  app.add_option("--samples", o->samples, "texts for each prompt; default 1").positive();
  app.add_option("--repetition-penalty", o->repetition_penalty,
                 "above 1 makes tokens that the text already has less likely");
  app.add_option("--stop", o->stop, "stop before this text (repeatable)").repeatable();
  app.add_option("--seed", o->seed, "random seed of sampling").non_negative();
  app.add_option("--batch-size", o->batch_size, "prompts continued at once; does not change the texts").positive();
  app.add_option("--cache-type", o->cache_type,
                 "how keys and values are stored; int8 takes a quarter of f32; default: as --precision")
      .one_of({"f32", "bf16", "int8"});
  app.add_option("--cache-tokens", o->cache_tokens,
                 "most tokens stored for all running prompts together, others wait; 0: no limit")
      .non_negative();
  const Option draft = app.add_option(
      "--draft", o->draft,
      "a smaller run of the same tokenizer that drafts tokens for the model to check; exit:N, the model itself as far "
      "as its exit after layer N; or prompt (or lookup), what stood in the text before; the texts are the same as "
      "without it (when sampling: equally likely ones)");
  app.add_option("--draft-tokens", o->draft_tokens, "tokens drafted at a time, at most: fewer where drafts were wrong")
      .positive()
      .needs(draft);
  app.add_option(
      "--exit", o->exit,
      "a token leaves a model with early exits where this rule says so: entropy:0.5, maxprob:0.9, margin:0.8, "
      "similarity:0.99, divergence:0.001, patience:3, predictor or layer:N; lithe eval --exits compares them");
  app.add_option("--early-stop", o->early_stop,
                 "end texts where the model's head says so, with this margin from -1 (at once) to 1 (only where it is "
                 "certain); needs model.head: {early_stop: true}");
  add_datastore_options(app, o->datastore);
  app.add_flag("--no-cache", o->no_cache, "recompute the whole text for every token (slow, for checks)");
  app.add_flag("--json", o->json, "print one JSON object per prompt");
  app.add_flag("--times", o->times, "log tokens per second of prefill and decode; with --json a last line has them");
  add_threads_option(app);
  app.footer(
      "Example: lithe generate runs/first --prompt \"In the beginning\" --max-new-tokens 60 --top-p 0.9\nOptions that "
      "are not given have the values of section generate in the run's recipe.");
  return [o] { return run_generate(*o); };
}

}  // namespace lithe
