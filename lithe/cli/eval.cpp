#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/eval_run.h"
#include "lithe/cli/text_lines.h"
#include "lithe/eval/held_out.h"
#include "lithe/parallel/job.h"
#include "lithe/train/plan.h"

namespace lithe {
namespace {

// Each option is refused where it would be ignored.
void check_options(const EvalOptions& o, const Recipe& recipe, bool next_token) {
  const auto refuse = [](bool given, const auto&... why) { check_usage(!given, "eval", why...); };
  const bool text = next_token && !recipe.has_translation() && !recipe.has_task();
  const bool zero_shot = !o.tasks.empty() || !o.choices.empty();
  const std::string is_none = cat("; '", o.model, "' is none");
  refuse(!o.task.empty() && !recipe.has_translation(), "--task ", o.task, ": '", o.model,
         "' was not trained to translate");
  const TranslationEvalOptions& t = o.translation;
  refuse(!t.hypotheses.empty() || !t.references.empty() || !t.baseline.empty(),
         "--hypotheses, --references and --baseline score files: leave the run '", o.model, "' out");
  refuse(
      !recipe.has_translation() && (t.num_beams || t.length_penalty || !t.save.empty() || t.lowercase || t.tokenizer),
      "--num-beams, --length-penalty, --save-translations, --tokenize and --lowercase are for models that translate");
  refuse(o.carry_state && (o.context || o.stride),
         "--carry-state runs every document once, without windows; leave --context-length and --stride out");
  const std::pair<bool, const char*> of_text[] = {{o.cache_type.has_value(), "--cache-type"},
                                                  {o.carry_state, "--carry-state"},
                                                  {o.by_position, "--by-position"},
                                                  {!o.per_token.empty(), "--per-token"},
                                                  {!o.datastore.directory.empty(), "--datastore"}};
  for (const auto& [given, name] : of_text) {
    refuse(given && !text, name, " is for models of text that predict the next token", is_none);
    refuse(given && zero_shot, name, " belongs to the perplexity of a text; leave --tasks and --choices out");
  }
  const bool exits = o.exits || !o.exit.empty();
  refuse(exits && !text && !recipe.has_task(),
         "--exit and --exits are for models of text that predict the next token and for models of tasks", is_none);
  refuse(exits && zero_shot,
         "--exit and --exits measure what the run was trained for; leave --tasks and --choices out");
  refuse(o.misspell > 0 && ((!recipe.has_task() && !text) || zero_shot),
         "--misspell is for models that were trained on a task, or on a text to predict the next token");
  refuse(o.misspell > 0 && text && o.files.empty(), "--misspell changes the words of files: name them");
  refuse(o.limit && !zero_shot, "--limit is for --tasks and --choices");
  refuse(o.num_fewshot >= 0 && o.tasks.empty(), "--num-fewshot is for --tasks");
  refuse(recipe.has_translation() && (o.context || o.stride), "--context-length and --stride belong to models of text");
}

// What several ranks of a job do not share out.
void check_ranks(const EvalOptions& o, const Recipe& recipe) {
  if (job().size() == 1) return;
  check_usage(o.choices.empty() && o.tasks.empty() && !recipe.has_translation() && !recipe.has_task() && !o.exits &&
                  o.exit.empty() && o.datastore.directory.empty() && !o.per_token.ends_with(".safetensors"),
              "eval", "the ", job().size(),
              " ranks of this job share out texts and held-out losses; tasks, translations, choices, early exits, "
              "datastores and logits are measured by one process: leave the launcher out");
}

int run_eval(EvalOptions o) {
  catch_stop_signals();
  join_job();
  const DividedEvaluation among(job().size() > 1 ? &job() : nullptr);
  o.files = readable(std::move(o.files));
  check_usage(!o.model.empty() || !o.task.empty(), "eval",
              "give the directory of a training run, or --task translation with files to score");
  if (o.model.empty()) {
    check_usage(!o.context && !o.stride && !o.batch_tokens && !o.limit && o.weights.empty() && o.tasks.empty() &&
                    o.choices.empty() && o.exit.empty() && !o.exits && !o.skip && !o.cache_type && !o.carry_state &&
                    !o.by_position && !o.el_rewrite && o.per_token.empty() && o.misspell == 0 &&
                    o.datastore.directory.empty(),
                "eval", "without a run nothing is computed, only files are scored; leave options of models out");
    return score_translation_files(o.translation, o.json);
  }
  Recipe recipe;
  bool predicts_next = false;
  LoadedModel loaded;
  together([&] {
    recipe = recipe_of_run(o.model);
    predicts_next = make_objective(recipe.train.objective)->predicts_next();
    check_options(o, recipe, predicts_next);
    check_ranks(o, recipe);
    if (o.context) recipe.eval.context_length = o.context;
    if (o.stride) recipe.eval.stride = o.stride;
    if (o.batch_tokens) recipe.eval.batch_tokens = o.batch_tokens;
    if (o.carry_state) recipe.eval.context_length = recipe.eval.stride = 0;
    if (o.carry_state) recipe.eval.carry_state = true;
    if (o.context || o.stride) recipe.eval.carry_state = false;
    recipe.eval = evaluation_of(recipe);
    if (o.cache_type) recipe.eval.cache_dtype = *o.cache_type;
    if (!o.exit.empty()) recipe.eval.exit = o.exit;
    loaded = load_model(o.model, o.weights, o.precision, o.el_rewrite);
    if (o.skip) loaded.model->skip(loaded.model->config().layers_named(*o.skip), o.skip_part == "mixer");
  });
  if (!o.choices.empty()) return eval_choices(o, recipe, loaded);
  if (!o.tasks.empty()) return eval_zero_shot(o, recipe, loaded);
  if (recipe.has_translation()) {
    Json weights;
    weights_used(o).add_to(weights);
    const int code = eval_translation(o.translation, recipe, loaded, o.files, o.json, weights);
    if (code == 0 && !o.json) print_weights(o);
    return code;
  }
  if (recipe.has_task()) return eval_task(o, recipe, loaded);
  if (!predicts_next || !recipe.data.messages.empty()) return eval_objective(o, recipe, loaded);
  return eval_text(o, recipe, loaded);
}

}  // namespace

Command add_eval(CommandLine& app) {
  auto o = std::make_shared<EvalOptions>();
  app.add_option("model", o->model, "directory of a training run; none to score files with --task translation");
  app.add_option("files", o->files, "text files to measure (-: standard input); default: the run's held-out text");
  app.add_option("--task", o->task, "task to measure; default: the task of the run").one_of({"translation"});
  app.add_option("--tasks", o->tasks, "tasks and groups: YAML files in the form of the evaluation harness (repeatable)")
      .repeatable();
  app.add_option("--choices", o->choices,
                 "score given choices: a file of JSON lines {\"query\": \"the sky is\", \"choices\": [\"blue\", \"a "
                 "cow\"]}; prints a line of JSON with their log-likelihoods for each; a space joins query and choice");
  app.add_option("--num-fewshot", o->num_fewshot,
                 "with --tasks: examples before each question, in place of the files' own number unless that is 0")
      .non_negative();
  app.add_option("--limit", o->limit, "with --tasks and --choices: at most this many documents of each").positive();
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
      .one_of({"f32", "bf16", "int8", "int4"});
  app.add_option("--per-token", o->per_token,
                 "write each token's loss to this file: a JSON object a line, or .safetensors with the logits, too")
      .output_file();
  const Option exit = app.add_option(
      "--exit", o->exit, "rule by which a token leaves a model with early exits; the rules: lithe generate --help");
  const Option exits = app.add_flag("--exits", o->exits,
                                    "compare all rules for early exits by quality, mean layers and milliseconds at "
                                    "batch 1; writes a page, too")
                           .excludes(exit);
  app.add_option("--exits-report", o->exits_report,
                 "write that page to this file; default: exits.html in the run's directory")
      .output_file()
      .needs(exits);
  app.add_option("--exit-tokens", o->exit_tokens, "with --exits: tokens of the text that are scored for each rule")
      .positive()
      .needs(exits);
  app.add_flag(
      "--by-position", o->by_position,
      "also the loss by the number of tokens before; kept in the run (loss_by_position.json) and drawn on its page");
  const Option layers = app.add_option(
      "--skip-layers", o->skip, "layers to leave out: numbers from 1 (1,3,5), or a name of model.mixers (replaced)");
  app.add_option("--skip-part", o->skip_part, "part of these layers to leave out: the whole layer, or only its mixer")
      .one_of({"layer", "mixer"})
      .needs(layers);
  const Option misspell =
      app.add_option("--misspell", o->misspell,
                     "tasks, and files of text: give one wrong letter to this share of the words of four letters or "
                     "more")
          .share();
  app.add_option("--misspell-seed", o->misspell_seed, "random seed of the wrong letters")
      .non_negative()
      .needs(misspell);
  add_datastore_options(app, o->datastore);
  add_translation_options(app, o->translation);
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe eval runs/first --stride 64\nA window slides over each document; every token is scored once, "
      "with at least context-length - stride\ntokens before it where the document has them. On several ranks (mpirun "
      "-n 4 lithe eval ...) texts are shared out.");
  return [o] { return run_eval(*o); };
}

}  // namespace lithe
