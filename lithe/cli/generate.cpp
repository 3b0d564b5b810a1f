#include <algorithm>
#include <cstdio>
#include <iostream>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/neighbour_options.h"
#include "lithe/cli/text_lines.h"
#include "lithe/infer/adapter.h"
#include "lithe/infer/generate.h"
#include "lithe/infer/grammar_step.h"
#include "lithe/infer/json_grammar.h"
#include "lithe/infer/load.h"
#include "lithe/infer/named_drafter.h"
#include "lithe/infer/tree_step.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/plan.h"

namespace lithe {
namespace {

struct GenerateOptions {
  std::string model, weights, precision = "f32", prompts_file, draft, grammar, json_schema, adapter;
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
  bool greedy = false, no_cache = false, json = false, times = false, el_rewrite = false, trees = false;
};

GenerateConfig settings_of(const GenerateOptions& o) {
  check_usage(!o.greedy || !(o.temperature || o.top_k || o.top_p || o.min_p), "generate",
              "--greedy takes the most likely token, so that ",
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
  return config;
}

// Texts of one prompt stand beside each other; each has random numbers of its own.
std::vector<std::string> prompts_of(const GenerateOptions& o, const GenerateConfig& config) {
  std::vector<std::string> prompts = o.prompts;
  if (!o.prompts_file.empty())
    for (std::string& line : text_lines({o.prompts_file})) prompts.push_back(std::move(line));
  check_usage(o.prompts_file.empty() || prompts.size() > o.prompts.size(), "generate", "'", o.prompts_file,
              "' holds no prompt; write one a line");
  if (prompts.empty()) prompts.push_back(config.prompt);
  std::vector<std::string> repeated;
  for (const std::string& prompt : prompts)
    repeated.insert(repeated.end(), size_t(config.num_return_sequences), prompt);
  return repeated;
}

std::vector<int32_t> ends_of(const Tokenizer& tokenizer) {
  const auto& eos = tokenizer.specials().eos;
  return eos ? std::vector<int32_t>{*eos} : std::vector<int32_t>();
}

std::shared_ptr<GrammarMasks> grammar_of(const GenerateOptions& o, const Tokenizer& tokenizer) {
  check_usage(int(o.trees) + int(!o.grammar.empty()) + int(!o.json_schema.empty()) <= 1, "generate",
              "--trees, --grammar and --json-schema exclude each other; give one");
  if (o.grammar.empty() && o.json_schema.empty()) return nullptr;
  constexpr uint64_t kMostBytes = uint64_t(1) << 20;
  const std::string& file = o.grammar.empty() ? o.json_schema : o.grammar;
  const std::string text = read_file(file, kMostBytes);
  return std::make_shared<GrammarMasks>(
      std::make_shared<TokenBytes>(tokenizer),
      o.grammar.empty() ? json_schema_grammar(parse_json(text, file)) : parse_gbnf(text));
}

// Writes one prompt as it comes, or several as they are done.
class Printer {
 public:
  Printer(const std::vector<std::string>& prompts, int64_t samples, bool json)
      : prompts_(prompts), samples_(size_t(samples)), json_(json), streams_(prompts.size() == 1 && !json) {}

  GenerateEvents events() {
    GenerateEvents out;
    if (streams_)
      out.on_text = [this](size_t, std::string_view piece) {
        show_prompt();
        std::cout << piece;
        flush_results();
        return true;
      };
    out.on_done = [this](size_t i, Generation&& result) {
      ++done_;
      at_limit_ += result.finish == Finish::positions;
      if (json_)
        print_json(i, result);
      else if (streams_)
        show_prompt(), std::cout << "\n";
      else
        print_text(i, result);
      flush_results();
    };
    return out;
  }
  size_t done() const { return done_; }
  size_t at_limit() const { return at_limit_; }

 private:
  const std::vector<std::string>& prompts_;
  size_t samples_;
  bool json_, streams_, begun_ = false;
  size_t done_ = 0, at_limit_ = 0;  // at_limit: at the model's last position

  // When it is known to be accepted.
  void show_prompt() {
    if (!std::exchange(begun_, true)) std::cout << prompts_[0];
  }
  void print_json(size_t i, const Generation& result) const {
    Json json = {{"prompt", prompts_[i]},
                 {"text", result.text},
                 {"finish", to_string(result.finish)},
                 {"prompt_tokens", result.prompt_tokens},
                 {"new_tokens", result.tokens.size()}};
    if (samples_ > 1) json["sample"] = i % samples_ + 1;
    std::cout << dump(json, -1, Invalid::replaced) << "\n";
  }
  void print_text(size_t i, const Generation& result) const {
    std::cout << "==> " << i / samples_ + 1 << (samples_ > 1 ? cat(", sample ", i % samples_ + 1) : "") << "\n"
              << prompts_[i] << result.text << "\n";
  }
};

double tokens_a_pass(const GenerateTimes& t) { return double(t.taken) / double(t.passes) + 1; }

void log_times(const GenerateTimes& t, const std::string& exit, int64_t layers) {
  const auto rate = [](int64_t tokens, double seconds) { return double(tokens) / std::max(seconds, 1e-9); };
  log_info("prefill ", t.prompt_tokens, " tokens in ", t.prefill_seconds, " s (",
           rate(t.prompt_tokens, t.prefill_seconds), " tokens/s); decode ", t.new_tokens, " tokens in ",
           t.decode_seconds, " s (", rate(t.new_tokens, t.decode_seconds), " tokens/s); decode state ",
           format_bytes(double(t.peak_state_bytes)), " in ", format_bytes(double(t.peak_state_allocated)));
  if (t.mean_layers > 0) log_info("exits ", exit, ": ", t.mean_layers, " of ", layers, " layers a token");
  if (t.passes) log_info("drafted ", t.drafted, " tokens, ", t.taken, " taken; ", tokens_a_pass(t), " tokens a pass");
}

void print_times(const GenerateTimes& t) {
  Json json = {{"prompt_tokens", t.prompt_tokens},
               {"new_tokens", t.new_tokens},
               {"prefill_seconds", t.prefill_seconds},
               {"decode_seconds", t.decode_seconds},
               {"tokens_per_second", double(t.new_tokens) / std::max(t.decode_seconds, 1e-9)}};
  if (t.mean_layers > 0) json["mean_layers"] = t.mean_layers;
  if (t.passes) {
    json["drafted"] = t.drafted;
    json["taken"] = t.taken;
    json["acceptance"] = double(t.taken) / double(std::max<int64_t>(t.drafted, 1));
    json["tokens_per_pass"] = tokens_a_pass(t);
  }
  std::cout << dump(Json({{"times", json}}), -1, Invalid::replaced) << "\n";
}

int run_generate(const GenerateOptions& o) {
  catch_stop_signals();
  const GenerateConfig config = settings_of(o);
  const std::vector<std::string> prompts = prompts_of(o, config);
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision, o.el_rewrite);
  const std::optional<NeighbourModel> neighbours = neighbours_of(o.datastore, o.model, o.weights, loaded);
  check_usage(!neighbours || o.draft.empty(), "generate",
              "--draft checks tokens by the model alone; leave out --draft or --datastore");
  const NamedDrafter drafting = drafter_named(o.draft, loaded, o.precision, config);
  GenerateHelp help{.drafter = drafting.drafter.get(), .draft_tokens = o.draft_tokens};
  std::optional<Adapter> adapter;
  if (!o.adapter.empty()) help.adapter = &adapter.emplace(*loaded.model, o.adapter, o.model, o.weights).updates();
  if (neighbours) help.steps.push_back(neighbour_step(*neighbours));
  if (o.trees) {
    help.steps.push_back(tree_step(*loaded.tokenizer, ends_of(*loaded.tokenizer)));
  }

  if (const std::shared_ptr<GrammarMasks> masks = grammar_of(o, *loaded.tokenizer)) {
    const auto empty = size_t(std::count(prompts.begin(), prompts.end(), ""));
    check_usage(empty == 0 || empty == prompts.size(), "generate",
                "a grammar is for prompts with a text or for those without one; leave out the empty ones");
    help.steps.push_back(grammar_step(masks, ends_of(*loaded.tokenizer), empty > 0));
  }

  Printer printer(prompts, config.num_return_sequences, o.json);
  GenerateTimes times;
  generate_each(*loaded.model, *loaded.tokenizer, prompts, config, printer.events(), &times, help);
  if (o.times || !o.prompts_file.empty()) log_times(times, config.exit, loaded.model->config().num_hidden_layers);
  if (o.json && o.times) print_times(times);
  if (printer.at_limit())
    log_info(printer.at_limit(), " of ", prompts.size(), " texts ended at the model's last position (it has ",
             loaded.model->position_limit(), "), before ", config.max_new_tokens, " new tokens");
  if (printer.done() < prompts.size())
    log_info("stopped: ", prompts.size() - printer.done(), " of ", prompts.size(), " prompts not begun");
  return stop_signal() ? 128 + stop_signal() : 0;
}

}  // namespace

Command add_generate(CommandLine& app) {
  auto o = std::make_shared<GenerateOptions>();
  app.add_option("model", o->model, "directory of a training run").required();
  app.add_option("--prompt", o->prompts, "text to continue (repeatable); default: the recipe's generate.prompt")
      .repeatable();
  app.add_option("--prompts-file", o->prompts_file, "file with one prompt on each line; - is standard input");
  add_weights_options(app, o->weights, o->precision);
  add_el_rewrite_option(app, o->el_rewrite);
  add_adapter_option(app, o->adapter);
  app.add_option("--max-new-tokens", o->max_new_tokens, "largest number of tokens to add").positive();
  app.add_flag("--greedy", o->greedy, "always take the most likely token");
  app.add_option("--temperature", o->temperature,
                 "below 1 makes likely tokens more likely, above 1 less likely; 0 is greedy");
  app.add_option("--top-k", o->top_k, "sample from the k most likely tokens only").non_negative();
  app.add_option("--top-p", o->top_p, "sample from the smallest set of tokens with this total probability");
  app.add_option("--min-p", o->min_p,
                 "sample only tokens with at least this share of the probability of the most likely token");
  app.add_option("--samples", o->samples, "number of texts for each prompt; default 1").positive();
  app.add_option("--repetition-penalty", o->repetition_penalty,
                 "above 1: tokens that are already in the text become less likely");
  app.add_option("--stop", o->stop, "end the text before this string (repeatable)").repeatable();
  app.add_option("--seed", o->seed, "random seed of sampling").non_negative();
  app.add_option("--batch-size", o->batch_size,
                 "number of prompts that are continued at the same time; it does not change the texts")
      .positive();
  app.add_option("--cache-type", o->cache_type,
                 "number format of stored keys and values; int8 takes a quarter of the memory of f32, int4 a sixth; "
                 "default: that of --precision")
      .one_of({"f32", "bf16", "int8", "int4"});
  app.add_option("--cache-tokens", o->cache_tokens,
                 "largest number of tokens stored for all running prompts together; other prompts wait; 0: no limit")
      .non_negative();
  const Option draft = app.add_option(
      "--draft", o->draft,
      "source of drafted tokens, which the model then checks. It is a smaller run with the same tokenizer; or exit:N, "
      "the model itself up to its exit after layer N; or prompt (also called lookup), the tokens that followed the "
      "same tokens earlier in the text. Greedy texts stay the same; sampled texts keep their probabilities");
  app.add_option("--draft-tokens", o->draft_tokens,
                 "largest number of tokens drafted at a time; after wrong drafts there are fewer")
      .positive()
      .needs(draft);
  app.add_option(
      "--exit", o->exit,
      "rule that says at which exit a token leaves a model with early exits: entropy:0.5, maxprob:0.9, margin:0.8, "
      "similarity:0.99, divergence:0.001, patience:3, predictor or layer:N; lithe eval --exits compares the rules");
  app.add_option("--early-stop", o->early_stop,
                 "end a text when the early-stop head of the model is certain by this margin, from -1 (at once) to 1 "
                 "(only if the head is fully certain); needs model.head: {early_stop: true}");
  add_datastore_options(app, o->datastore);
  app.add_flag("--no-cache", o->no_cache, "recompute the whole text for every token (slow, for checks)");
  app.add_flag("--trees", o->trees,
               "write only trees after the prompt: matching brackets, in the form that `lithe tokenize --trees "
               "--linear` writes");
  app.add_option("--grammar", o->grammar,
                 "file with a grammar in GBNF: allow only texts of its rule `root` after the prompt");
  app.add_option("--json-schema", o->json_schema,
                 "file with a JSON Schema: allow only JSON that is valid under it after the prompt");
  app.add_flag("--json", o->json, "print one JSON object per prompt");
  app.add_flag("--times", o->times,
               "log the tokens per second of prefill and decode; with --json also print them as the last line");
  add_threads_option(app);
  app.footer(
      "Example: lithe generate runs/first --prompt \"In the beginning\" --max-new-tokens 60 --top-p 0.9\nOptions that "
      "are not given have the values of section generate in the run's recipe.");
  return [o] { return run_generate(*o); };
}

}  // namespace lithe
