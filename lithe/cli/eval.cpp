#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include "lithe/base/json.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/eval_exits.h"
#include "lithe/cli/eval_translation.h"
#include "lithe/cli/finite_result.h"
#include "lithe/cli/neighbour_options.h"
#include "lithe/cli/task_report.h"
#include "lithe/cli/text_lines.h"
#include "lithe/data/corpus.h"
#include "lithe/eval/loss_by_position.h"
#include "lithe/eval/misspell.h"
#include "lithe/eval/neighbour_perplexity.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/eval/zero_shot.h"
#include "lithe/infer/load.h"
#include "lithe/model/exits.h"
#include "lithe/model/safetensors.h"
#include "lithe/recipe/recipe.h"
#include "lithe/report/run_report.h"
#include "lithe/train/plan.h"
#include "lithe/train/training_data.h"

namespace lithe {
namespace {

constexpr double kMostLogits = double(int64_t(4) << 30);  // bytes that are kept at once

struct EvalOptions {
  std::string model, weights, precision = "f32", skip_part = "layer";
  std::optional<std::string> skip, cache_type;
  std::vector<std::string> files, tasks;
  int64_t limit = 0;
  int64_t context = 0, stride = 0, batch_tokens = 0;
  double misspell = 0;
  int64_t misspell_seed = 1;
  bool json = false, el_rewrite = false, carry_state = false, exits = false, by_position = false;
  std::string task, per_token, choices, exit, exits_report;
  int64_t exit_tokens = 2048;
  TranslationEvalOptions translation;
  DatastoreOptions datastore;
};

// Which weights were measured: "last", "best", "averaged" or a file, and the step that they are of where the run says
// it.
struct WeightsUsed {
  std::string name;
  std::optional<int64_t> step;
  std::string text() const { return name + (step ? cat(", step ", *step) : ""); }
  void add_to(Json& json) const {
    json["weights"] = name;
    if (step) json["weights_step"] = *step;
  }
};

WeightsUsed weights_used(const EvalOptions& o) {
  WeightsUsed used{.name = o.weights.empty() ? "last" : o.weights};
  const Path file = Path(o.model) / "result.json";
  const char* key = o.weights.empty() ? "steps" : o.weights == "best" ? "best_step" : nullptr;
  if (!key || !std::filesystem::exists(file)) return used;
  const Json result = parse_json(read_file(file), file.string());
  if (result.is_object() && result.contains(key) && result[key].is_number_integer())
    used.step = result[key].get<int64_t>();
  return used;
}

void print_weights(const EvalOptions& o) { std::printf("weights           %s\n", weights_used(o).text().c_str()); }

// A line of JSON a token, or tensors with the logits.
void write_tokens(const Path& file, const TokenScores& scores, const Tokenizer& tokenizer) {
  const auto n = int64_t(scores.tokens.size());
  if (file.extension() == ".safetensors") {
    const auto tensor = [](const auto& values, Shape shape, DType type) {
      const Tensor out = empty(shape, type);
      std::memcpy(out.raw(), values.data(), values.size() * sizeof values[0]);
      return out;
    };
    write_safetensors(file,
                      {{"tokens", tensor(scores.tokens, {n}, DType::i32)},
                       {"documents", tensor(scores.documents, {n}, DType::i32)},
                       {"nll", tensor(scores.nll, {n}, DType::f32)},
                       {"logits", tensor(scores.logits, {n, int64_t(scores.logits.size()) / n}, DType::f32)}},
                      {});
    return;
  }
  std::string text;
  for (size_t i = 0; i < scores.tokens.size(); ++i)
    text += dump(Json({{"document", scores.documents[i]},
                       {"id", scores.tokens[i]},
                       {"token", tokenizer.token(scores.tokens[i])},
                       {"piece", tokenizer.piece(scores.tokens[i], false)},
                       {"nll", scores.nll[i]}}),
                 -1, Invalid::replaced) +
            "\n";
  write_file(file, text);
}

int print_exits(const EvalOptions& o, const ExitTable& table) {
  const Path page = o.exits_report.empty() ? Path(o.model) / "exits.html" : Path(o.exits_report);
  write_file(page, exit_table_page(table, Path(o.model).filename().string()));
  if (o.json) {
    Json json = exit_table_json(table);
    weights_used(o).add_to(json);
    json["report"] = page.string();
    std::cout << dump(json, 2, Invalid::replaced) << "\n";
    return 0;
  }
  std::fputs(exit_table_text(table).c_str(), stdout);
  std::printf("report            %s\n", page.string().c_str());
  print_weights(o);
  return 0;
}

Json json_of(const std::vector<PositionLoss>& by_position) {
  Json out = Json::array();
  for (const PositionLoss& p : by_position)
    out.push_back({{"from", p.from}, {"to", p.to}, {"tokens", p.tokens}, {"loss", p.loss()}});
  return out;
}

// For the run's page, which is written anew.
void keep_by_position(const Path& run, const std::vector<PositionLoss>& by_position, int64_t trained, int64_t context) {
  const Json json = {{"trained_length", trained}, {"context_length", context}, {"positions", json_of(by_position)}};
  write_file(run / "loss_by_position.json", dump(json, 2) + "\n");
  write_run_report(run);
}

void print_by_position(const std::vector<PositionLoss>& by_position, const Path& run) {
  std::printf("\n%-19s %10s  %s\n", "tokens before", "tokens", "loss");
  for (const PositionLoss& p : by_position)
    std::printf("%-19s %10lld  %.4f\n", cat(p.from, " to ", p.to - 1).c_str(), static_cast<long long>(p.tokens),
                p.loss());
  std::printf("chart             %s\n", (run / "report.html").c_str());
}

// The metrics of a task on its test part, else its validation part, or on the files given.
int eval_task(const EvalOptions& o, Recipe recipe, const LoadedModel& loaded) {
  check_usage(!o.context && !o.stride, "eval", "--context-length and --stride belong to models of text");
  const std::vector<Example> train = training_examples(recipe.task, loaded.model->config().label_names);
  if (!o.files.empty()) {
    recipe.task.train.clear();
    recipe.task.validation.clear();
    recipe.task.validation_fraction = 0;
    recipe.task.test = o.files;
  }
  const std::vector<std::string>& labels = loaded.model->config().label_names;
  TaskData data = load_task(recipe.task, labels);
  std::vector<Example>& examples = data.test.empty() ? data.validation : data.test;
  check_usage(!examples.empty(), "eval", "the run has no test and no validation examples; name the files to measure");
  const std::string part = !o.files.empty() ? "files" : data.test.empty() ? "validation" : "test";
  check_usage(o.misspell == 0 || task_type(recipe.task) != TaskType::span, "eval",
              "--misspell would move the answers of a span task");
  for (size_t i = 0; o.misspell > 0 && i < examples.size(); ++i)
    misspell(examples[i], o.misspell, uint64_t(o.misspell_seed));
  const TaskType type = task_type(recipe.task);
  const TaskBatches batches(std::move(examples), type, *loaded.tokenizer, recipe.data.sequence_length,
                            recipe.train.batch_tokens, 0, false);
  if (o.exits) {
    TaskBatches one_by_one(std::vector<Example>(batches.examples()), type, *loaded.tokenizer,
                           recipe.data.sequence_length, 1, 0, false);
    return print_exits(o, task_exit_table(*loaded.model, one_by_one, recipe.task, labels, exit_grid(*loaded.model)));
  }
  std::optional<ExitRun> exits = exit_run_of(*loaded.model, o.exit);
  const TaskAnswers answers = answer(*loaded.model, batches, {}, exits ? &*exits : nullptr);
  if (stop_signal()) return 128 + stop_signal();
  check_finite_result("eval", "the loss", answers.loss);
  const std::vector<TaskMetric> metrics = choose_metrics(recipe.task, labels).metrics;
  const auto scores_of = [&](const std::vector<Prediction>& predictions) {
    return score_predictions(metrics, predictions, batches.examples(), labels);
  };
  TaskReport report{.scores = scores_of(answers.predictions)};
  const bool classes = type == TaskType::classification || type == TaskType::tagging;
  if (classes) report.confusion = confusion(type, batches.examples(), answers.predictions, labels.size());
  for (const TaskBaseline& b : task_baselines(type, train, batches.examples(), labels.size()))
    report.baselines.emplace_back(b.name, scores_of(b.predictions));
  const size_t count = batches.examples().size();
  if (o.json) {
    Json json = {{"part", part}, {"examples", count}, {"loss", answers.loss}};
    add_task_report(report, labels, json);
    if (exits) json["mean_layers"] = exits->mean_layers();
    weights_used(o).add_to(json);
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  std::printf("%-17s %.4f (%zu examples, %s)\n", "loss", answers.loss, count, part.c_str());
  if (exits) std::printf("mean layers       %.2f\n", exits->mean_layers());
  std::fputs(task_report_text(report, labels).c_str(), stdout);
  print_weights(o);
  return 0;
}

// The loss of masked or corrupted tokens on the held-out text, by the draws that the trainer's evaluations use.
int eval_objective(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  check_usage(o.files.empty() && !o.context && !o.stride, "eval", "objective ", recipe.train.objective.type,
              " is measured on the run's held-out text alone");
  const TrainingData data = load_training_data(recipe, {loaded.tokenizer, loaded.source_tokenizer});
  check_usage(data.held_out != nullptr, "eval", "the run has no held-out text");
  const auto total = evaluate(*loaded.model, *data.objective, data.held_out->batches());
  if (!total) return 128 + stop_signal();
  const double loss = total->mean_nll();
  check_finite_result("eval", "the loss", loss);
  if (o.json) {
    Json json = {{"loss", loss}, {"labels", total->labels}, {"objective", recipe.train.objective.type}};
    weights_used(o).add_to(json);
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  std::printf("loss              %.4f per label (%lld labels, objective %s)\n", loss,
              static_cast<long long>(total->labels), recipe.train.objective.type.c_str());
  print_weights(o);
  return 0;
}

// Tasks described by the evaluation harness's YAML, and results in its layout.
int eval_tasks(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  check_usage(o.files.empty() && !o.stride && !o.context && o.task.empty(), "eval",
              "--tasks names its own data; leave texts, --context-length, --stride and --task out");
  ZeroShotOptions options{.limit = o.limit, .add_bos_token = recipe.generate.add_bos_token};
  if (o.batch_tokens) options.batch_tokens = o.batch_tokens;
  std::vector<ZeroShotTask> tasks;
  for (const std::string& file : o.tasks) tasks.push_back(read_zero_shot_task(file));
  Json json = {{"results", Json::object()},
               {"configs", Json::object()},
               {"versions", Json::object()},
               {"n-shot", Json::object()},
               {"n-samples", Json::object()},
               {"config", {{"model", "lithe"}, {"model_args", o.model}, {"batch_size", options.batch_tokens}}}};
  for (const ZeroShotTask& task : tasks) {
    const ZeroShotResult result = evaluate_zero_shot(*loaded.model, *loaded.tokenizer, task, options);
    Json& scores = json["results"][task.task];
    scores["alias"] = task.task;
    for (const ZeroShotMetric& m : result.metrics) {
      check_finite_result("eval", m.name.c_str(), m.value);
      scores[m.name + ",none"] = m.value;
      scores[m.name + "_stderr,none"] = m.stderr_ ? Json(*m.stderr_) : Json("N/A");
      if (!o.json)
        std::printf("%-16s %-16s %.4f%s (%lld documents)\n", task.task.c_str(), m.name.c_str(), m.value,
                    m.stderr_ ? cat(" +- ", std::round(*m.stderr_ * 1e4) / 1e4).c_str() : "",
                    static_cast<long long>(result.documents));
    }
    json["configs"][task.task] = parse_json(to_json(task.source), task.task);
    json["versions"][task.task] = task.version;
    json["n-shot"][task.task] = 0;
    json["n-samples"][task.task] = {{"original", result.all_documents}, {"effective", result.documents}};
  }
  if (o.json) std::cout << dump(json, 2) << "\n";
  return 0;
}

// Log-likelihoods of given choices, a line of JSON a document.
int eval_choices(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  check_usage(o.files.empty() && !o.stride && !o.context && o.task.empty() && o.tasks.empty(), "eval",
              "--choices names its own data; leave texts, --context-length, --stride, --task and --tasks out");
  ZeroShotOptions options{.limit = o.limit, .add_bos_token = recipe.generate.add_bos_token};
  if (o.batch_tokens) options.batch_tokens = o.batch_tokens;
  for (const auto& document : score_choices(*loaded.model, *loaded.tokenizer, choices_task(o.choices), options)) {
    Json line = Json::array();
    double most = -INFINITY, sum = 0;
    for (const ChoiceScore& c : document) most = std::max(most, c.log_likelihood);
    for (const ChoiceScore& c : document) sum += std::exp(c.log_likelihood - most);
    for (const ChoiceScore& c : document) {
      check_finite_result("eval", "the log-likelihood", c.log_likelihood);
      const auto by = [&](int64_t n) { return c.log_likelihood / double(std::max<int64_t>(1, n)); };
      line.push_back({{"choice", c.choice},
                      {"log_likelihood", c.log_likelihood},
                      {"per_token", by(c.tokens)},
                      {"per_character", by(c.characters)},
                      {"per_byte", by(c.bytes)},
                      {"probability", std::exp(c.log_likelihood - most) / sum},
                      {"tokens", c.tokens},
                      {"greedy", c.greedy}});
    }
    std::cout << dump(line, -1, Invalid::replaced) << "\n";
  }
  return 0;
}

int run_eval(EvalOptions o) {
  catch_stop_signals();
  o.files = readable(std::move(o.files));
  check_usage(!o.model.empty() || !o.task.empty(), "eval",
              "give the directory of a training run, or --task translation with files to score");
  if (o.model.empty()) return score_translation_files(o.translation, o.json);
  Recipe recipe = recipe_of_run(o.model);
  check_usage(o.task.empty() || recipe.has_translation(), "eval", "--task ", o.task, ": '", o.model,
              "' was not trained to translate");
  check_usage(o.translation.hypotheses.empty() && o.translation.references.empty() && o.translation.baseline.empty(),
              "eval", "--hypotheses, --references and --baseline score files: leave the run '", o.model, "' out");
  if (o.context) recipe.eval.context_length = o.context;
  if (o.stride) recipe.eval.stride = o.stride;
  if (o.batch_tokens) recipe.eval.batch_tokens = o.batch_tokens;
  check_usage(!o.carry_state || (!o.context && !o.stride), "eval",
              "--carry-state runs every document once, without windows; leave --context-length and --stride out");
  if (o.carry_state) recipe.eval.context_length = recipe.eval.stride = 0;
  if (o.carry_state) recipe.eval.carry_state = true;
  if (o.context || o.stride) recipe.eval.carry_state = false;
  recipe.eval = evaluation_of(recipe);
  const bool predicts_next = make_objective(recipe.train.objective)->predicts_next();
  check_usage(!o.cache_type || (!recipe.has_translation() && !recipe.has_task() && predicts_next), "eval",
              "--cache-type is for models of text that predict the next token; '", o.model, "' is none");
  if (o.cache_type) recipe.eval.cache_dtype = *o.cache_type;
  check_usage((o.exit.empty() && !o.exits) || (!recipe.has_translation() && (recipe.has_task() || predicts_next)),
              "eval",
              "--exit and --exits are for models of text that predict the next token and for models of tasks; '",
              o.model, "' is none");
  if (!o.exit.empty()) recipe.eval.exit = o.exit;
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision, o.el_rewrite);

  if (o.skip) loaded.model->skip(loaded.model->config().layers_named(*o.skip), o.skip_part == "mixer");

  check_usage(!o.limit || !o.tasks.empty() || !o.choices.empty(), "eval", "--limit is for --tasks and --choices");
  check_usage(o.datastore.directory.empty() || (o.tasks.empty() && o.choices.empty() && !recipe.has_translation() &&
                                                !recipe.has_task() && predicts_next),
              "eval", "--datastore is for models of text that predict the next token, and their perplexity");
  if (!o.choices.empty()) return eval_choices(o, recipe, loaded);
  if (!o.tasks.empty()) return eval_tasks(o, recipe, loaded);
  check_usage(o.misspell == 0 || recipe.has_task(), "eval", "--misspell is for models that were trained on a task");
  const TranslationEvalOptions& t = o.translation;
  check_usage(recipe.has_translation() || (!t.num_beams && !t.length_penalty && t.save.empty() && !t.lowercase), "eval",
              "--num-beams, --length-penalty, --save-translations and --lowercase are for models that translate");
  check_usage(!recipe.has_translation() || (!o.context && !o.stride), "eval",
              "--context-length and --stride belong to models of text");
  check_usage(!o.carry_state || (!recipe.has_translation() && !recipe.has_task() && predicts_next), "eval",
              "--carry-state is for models of text that predict the next token; '", o.model, "' is none");
  check_usage(!o.by_position || (!recipe.has_translation() && !recipe.has_task() && predicts_next), "eval",
              "--by-position is for models of text that predict the next token; '", o.model, "' is none");
  check_usage(o.per_token.empty() || (!recipe.has_translation() && !recipe.has_task() && predicts_next), "eval",
              "--per-token is for models of text that predict the next token; '", o.model, "' is none");
  if (recipe.has_translation()) {
    Json weights;
    weights_used(o).add_to(weights);
    const int code = eval_translation(o.translation, recipe, loaded, o.files, o.json, weights);
    if (code == 0 && !o.json) print_weights(o);
    return code;
  }
  if (recipe.has_task()) return eval_task(o, recipe, loaded);
  if (!predicts_next) return eval_objective(o, recipe, loaded);
  const std::optional<NeighbourModel> neighbours = neighbours_of(o.datastore, o.model, o.weights, loaded);
  check_usage(!neighbours || Path(o.per_token).extension() != ".safetensors", "eval",
              "logits are the model's alone; with --datastore give --per-token a .json file");
  TokenStore text;
  if (o.files.empty()) {
    auto data = load_dataset(recipe.data, loaded.tokenizer);
    check_usage(data.validation.has_value(), "eval", "the run has no held-out text; name the files to measure");
    text = *data.validation;
  } else {
    text = tokenize_in_memory(Corpus(o.files, corpus_options(recipe.data)), *loaded.tokenizer);
  }
  if (o.exits)
    return print_exits(
        o, text_exit_table(*loaded.model, text,
                           recipe.eval.context_length ? recipe.eval.context_length : recipe.data.sequence_length,
                           o.exit_tokens, std::min<int64_t>(o.exit_tokens, 128), exit_grid(*loaded.model)));
  const bool terminal = ::isatty(STDERR_FILENO);
  const auto progress = [&](int64_t done, int64_t all) {
    if (terminal)
      std::fprintf(stderr, "\rscoring %lld/%lld tokens", static_cast<long long>(done), static_cast<long long>(all));
  };
  TokenScores each{.with_logits = Path(o.per_token).extension() == ".safetensors"};
  const double bytes = double(text.tokens()) * double(loaded.model->config().vocab_size) * sizeof(float);
  check_usage(!each.with_logits || bytes <= kMostLogits, "eval", "the logits of ", text.tokens(), " tokens are ",
              format_bytes(bytes), ", more than ", format_bytes(kMostLogits),
              "; give less text, or --per-token a .json file for the losses alone");
  const Perplexity p =
      perplexity(*loaded.model, text, recipe.eval, recipe.data.sequence_length, neighbours ? &*neighbours : nullptr,
                 progress, nullptr, o.per_token.empty() && !o.by_position ? nullptr : &each);
  if (terminal) std::fputs("\r\033[K", stderr);
  check_finite_result("eval", "the loss", p.loss());
  if (!o.per_token.empty()) write_tokens(o.per_token, each, *loaded.tokenizer);
  const int64_t context = recipe.eval.context_length ? recipe.eval.context_length : recipe.data.sequence_length,
                stride = recipe.eval.stride ? recipe.eval.stride : context;
  const std::vector<PositionLoss> by_position = o.by_position ? loss_by_position(each) : std::vector<PositionLoss>();
  if (o.by_position) keep_by_position(o.model, by_position, recipe.data.sequence_length, context);
  if (o.json) {
    Json json = {{"loss", p.loss()},
                 {"token_perplexity", p.token_perplexity()},
                 {"word_perplexity", p.word_perplexity()},
                 {"word_perplexity_with_line_ends", p.word_and_line_perplexity()},
                 {"bits_per_byte", p.bits_per_byte()},
                 {"tokens", p.tokens},
                 {"words", p.words},
                 {"lines", p.lines},
                 {"bytes", p.bytes},
                 {"carry_state", recipe.eval.carry_state}};
    if (!recipe.eval.carry_state) json["context_length"] = context, json["stride"] = stride;
    if (p.mean_layers > 0) json["mean_layers"] = p.mean_layers;
    if (o.by_position) json["by_position"] = json_of(by_position);
    weights_used(o).add_to(json);
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  const std::string windows =
      recipe.eval.carry_state ? "carried states" : cat("context ", context, ", stride ", stride);
  std::printf("loss              %.4f per token (%lld tokens, %s)\n", p.loss(), static_cast<long long>(p.tokens),
              windows.c_str());
  std::printf("token perplexity  %.2f\nword perplexity   %.2f (%.2f with line ends as words)\nbits per byte     %.4f\n",
              p.token_perplexity(), p.word_perplexity(), p.word_and_line_perplexity(), p.bits_per_byte());
  if (p.mean_layers > 0) std::printf("mean layers       %.2f\n", p.mean_layers);
  print_weights(o);
  if (o.by_position) print_by_position(by_position, o.model);
  return 0;
}

}  // namespace

Command add_eval(CommandLine& app) {
  auto o = std::make_shared<EvalOptions>();
  app.add_option("model", o->model, "directory of a training run; none to score files with --task translation");
  app.add_option("files", o->files, "text files to measure (-: standard input); default: the run's held-out text");
  app.add_option("--task", o->task, "what is measured; default: what the run was trained for").one_of({"translation"});
  app.add_option("--tasks", o->tasks, "zero-shot tasks: YAML files as the evaluation harness has them (repeatable)")
      .repeatable();
  app.add_option(
      "--choices", o->choices,
      "print log-likelihoods of given choices, a line of JSON a document: JSON lines {\"query\": \"the sky is\", "
      "\"choices\": [\"blue\", \"a cow\"]}, a space between them");
  app.add_option("--limit", o->limit, "with --tasks and --choices: documents of each at most").positive();
  add_weights_options(app, o->weights, o->precision);
  add_el_rewrite_option(app, o->el_rewrite);
  app.add_option("--context-length", o->context, "tokens in a window; default: the recipe's").positive();
  app.add_option("--stride", o->stride, "tokens by which the window moves; default: the context length").positive();
  app.add_flag("--carry-state", o->carry_state,
               "no windows: each document runs once, in pieces that go on from the state of the piece before; default "
               "for runs with train.carry_state");
  app.add_option("--batch-tokens", o->batch_tokens, "tokens computed at once; does not change the result").positive();
  app.add_option("--cache-type", o->cache_type,
                 "read all keys and values from a cache of this type, as lithe generate does; default: no cache")
      .one_of({"f32", "bf16", "int8"});
  app.add_option("--per-token", o->per_token,
                 "write each token's loss to this file: a JSON object a line, or .safetensors with the logits, too");
  const Option exit = app.add_option(
      "--exit", o->exit, "rows leave a model with early exits where this rule says, as in lithe generate --exit");
  const Option exits =
      app.add_flag("--exits", o->exits,
                   "compare all rules of early exits: quality, mean layers and milliseconds at batch 1, and a page")
          .excludes(exit);
  app.add_option("--exits-report", o->exits_report, "where that page goes; default: exits.html in the run's directory")
      .needs(exits);
  app.add_option("--exit-tokens", o->exit_tokens, "with --exits: tokens of the text that are scored for each rule")
      .positive()
      .needs(exits);
  app.add_flag(
      "--by-position", o->by_position,
      "loss by the number of tokens before, too: kept in the run (loss_by_position.json), a chart of its page");
  const Option layers = app.add_option(
      "--skip-layers", o->skip, "layers to leave out: numbers from 1 (1,3,5) or a name of model.mixers (replaced)");
  app.add_option("--skip-part", o->skip_part, "what to leave out of them: the whole layer, or its mixer alone")
      .one_of({"layer", "mixer"})
      .needs(layers);
  app.add_option("--misspell", o->misspell,
                 "tasks: give one wrong letter to this share of the words of four letters or more")
      .share();
  app.add_option("--misspell-seed", o->misspell_seed, "random seed of the wrong letters").non_negative();
  add_datastore_options(app, o->datastore);
  add_translation_options(app, o->translation);
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe eval runs/first --stride 64\nA window slides over each document; every token is scored once, "
      "with at least context-length - stride\ntokens before it where the document has them.");
  return [o] { return run_eval(*o); };
}

}  // namespace lithe
