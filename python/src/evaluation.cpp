#include <pybind11/stl.h>

#include "lithe/base/stop.h"
#include "lithe/eval/finite_result.h"
#include "lithe/eval/measured_part.h"
#include "lithe/eval/perplexity.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/eval/task_report.h"
#include "lithe/eval/translation_evaluation.h"
#include "lithe/eval/translation_scores.h"
#include "lithe/eval/zero_shot_results.h"
#include "lithe/train/training_data.h"
#include "model.h"
#include "values.h"

namespace lithe::python {
namespace {

TokenStore store_of(const PyModel& self, const std::vector<std::string>& texts) {
  const Tokenizer& tokenizer = self.tokenizer();
  const Specials& specials = tokenizer.specials();
  StoreInfo info{.tokenizer_fingerprint = tokenizer.fingerprint(),
                 .vocab_size = tokenizer.vocab_size(),
                 .token_width = tokenizer.width(),
                 .begin_of_text = specials.bos ? specials.bos : specials.eos,
                 .end_of_text = specials.eos};
  std::vector<std::vector<int32_t>> documents;
  for (const std::string& text : texts) {
    documents.push_back(tokenizer.encode(text));
    info.bytes += int64_t(text.size());
    bool inside = false;
    for (const char c : text) {
      const bool space = c == ' ' || (c >= '\t' && c <= '\r');
      info.words += !space && !inside;
      info.lines += c == '\n';
      inside = !space;
    }
  }
  check_usage(info.bytes > 0, "eval", "the texts are empty, so that there is nothing to predict; give a text");
  return TokenStore::from_documents(documents, info);
}

Json measure_text(const PyModel& self, const std::vector<std::string>& files,
                  const std::optional<std::vector<std::string>>& texts, const EvalConfig& config) {
  const TokenStore text = texts ? store_of(self, *texts) : measured_text(self.recipe, self.loaded.tokenizer, files);
  return perplexity(self.model(), text, config, self.recipe.data.sequence_length).json();
}

Json measure_task(const PyModel& self, const std::vector<std::string>& files) {
  const Recipe& recipe = self.recipe;
  const std::vector<std::string>& labels = self.model().config().label_names;
  auto [examples, train, part] = measured_examples(recipe.task, files, labels);
  const TaskBatches batches(std::move(examples), task_type(recipe.task), self.tokenizer(), recipe.data.sequence_length,
                            recipe.train.batch_tokens, 0, false, task_reading(recipe));
  const TaskAnswers answers = answer(self.model(), batches);
  check(!stop_signal(), "eval", "stopped by a signal");
  check_finite_result("eval", "the loss", answers.loss);
  Json out = {{"part", part}, {"examples", batches.examples().size()}, {"loss", answers.loss}};
  add_task_report(task_report(recipe.task, answers.predictions, batches.examples(),
                              baseline_scores(recipe.task, batches.examples(), train, labels), labels),
                  labels, out);
  return out;
}

Json measure_translations(const PyModel& self, const std::vector<std::string>& files) {
  auto [pairs, part] = measured_pairs(self.recipe, files);
  const Tokenizers tokenizers{self.loaded.tokenizer, self.loaded.source_tokenizer};
  TranslationBatches batches = held_out_translations(
      pairs, tokenizers, self.recipe.data, self.recipe.train.batch_tokens, self.recipe.translation.cut_sources);
  batches.give_only(self.model().config().source_names());
  const auto total = evaluate(self.model(), *make_objective(self.recipe.train.objective), batches);
  check(total.has_value(), "eval", "stopped by a signal");
  const std::vector<std::string> hypotheses = translate_sources(self.model(), tokenizers, pairs, self.recipe.translate);
  check(!stop_signal(), "eval", "stopped by a signal");
  std::vector<std::string> references;
  for (const TextPair& pair : pairs) references.push_back(pair.target);
  Json out = score_translations(hypotheses, {references}).json();
  out["part"] = part;
  out["loss"] = finite_or_null(total->mean_nll());
  out["num_beams"] = self.recipe.translate.num_beams;
  out["length_penalty"] = self.recipe.translate.length_penalty;
  return out;
}

Json measure_objective(const PyModel& self, const std::vector<std::string>& files) {
  check_usage(files.empty(), "eval", "objective ", self.recipe.train.objective.type,
              " is measured on the run's held-out text alone");
  const TrainingData data = load_training_data(self.recipe, {self.loaded.tokenizer, self.loaded.source_tokenizer});
  check_usage(data.held_out != nullptr, "eval", "the run has no held-out text");
  const auto total = evaluate(self.model(), *data.objective, data.held_out->batches());
  check(total.has_value(), "eval", "stopped by a signal");
  return {{"loss", finite_or_null(total->mean_nll())},
          {"labels", total->labels},
          {"objective", self.recipe.train.objective.type}};
}

EvalConfig eval_config(const PyModel& self, py::kwargs settings) {
  Recipe recipe = self.recipe;
  if (settings.contains("cache_type")) settings["cache_dtype"] = settings.attr("pop")("cache_type");
  const bool windows = settings.contains("context_length") || settings.contains("stride");
  const bool carries = settings.contains("carry_state");
  read_settings(settings, "eval", [&](Fields& f) { recipe.eval.fields(f); });
  check_usage(!windows || !carries || !recipe.eval.carry_state, "eval",
              "carry_state runs every document once, without windows; leave context_length and stride out");
  if (carries && recipe.eval.carry_state) recipe.eval.context_length = recipe.eval.stride = 0;
  if (windows) recipe.eval.carry_state = false;
  return evaluation_of(recipe);
}

std::vector<std::string> paths_of(const py::object& given) {
  if (given.is_none()) return {};
  if (py::isinstance<py::str>(given) || py::hasattr(given, "__fspath__")) return {path_of(given).string()};
  std::vector<std::string> out;
  for (const py::handle item : given) out.push_back(path_of(item).string());
  return out;
}

py::object perplexity_of(const PyModel& self, const py::object& texts, const py::object& files,
                         const py::kwargs& settings) {
  check_usage(texts.is_none() || files.is_none(), "eval", "texts and files both give the text; keep one");
  bool alone = false;
  std::optional<std::vector<std::string>> all;
  if (!texts.is_none()) all = texts_of(texts, alone);
  const std::vector<std::string> names = paths_of(files);
  const EvalConfig config = eval_config(self, settings);
  return from_json(self.alone([&] { return measure_text(self, names, all, config); }));
}

py::object eval(const PyModel& self, const py::object& files, const py::object& tasks, int64_t num_fewshot,
                int64_t limit, const py::kwargs& settings) {
  const std::vector<std::string> names = paths_of(files), suites = paths_of(tasks);
  const EvalConfig config = eval_config(self, settings);
  if (!suites.empty()) {
    check_usage(names.empty(), "eval", "tasks name their own data; leave files out");
    ZeroShotOptions options{.limit = limit, .add_bos_token = self.recipe.generate.add_bos_token};
    if (settings.contains("batch_tokens")) options.batch_tokens = config.batch_tokens;
    return from_json(self.alone([&] {
      std::vector<ZeroShotSuite> all;
      for (const std::string& file : suites) all.push_back(read_zero_shot_suite(file, {.num_fewshot = num_fewshot}));
      return zero_shot_json(self.model(), self.tokenizer(), all, options, self.run.string());
    }));
  }
  check_usage(!limit && num_fewshot < 0, "eval", "limit and num_fewshot are for tasks");
  const Recipe& recipe = self.recipe;
  const bool text = !recipe.has_translation() && !recipe.has_task() && recipe.data.messages.empty() &&
                    make_objective(recipe.train.objective)->predicts_next();
  check_usage(text || settings.empty(), "eval",
              "settings of section eval are for models of text that predict the next token; '", self.run.string(),
              "' is none");
  return from_json(self.alone([&] {
    return recipe.has_translation() ? measure_translations(self, names)
           : recipe.has_task()      ? measure_task(self, names)
           : text                   ? measure_text(self, names, std::nullopt, config)
                                    : measure_objective(self, names);
  }));
}

}  // namespace

void add_evaluation(ModelClass& model) {
  model.def(
      "perplexity", perplexity_of, py::arg("texts") = py::none(), py::kw_only(), py::arg("files") = py::none(),
      "How well the model predicts texts (each a document), files, or the run's held-out text: a dict with loss,\n"
      "token_perplexity, word_perplexity, bits_per_byte, what was counted and the windows. Settings: context_length, "
      "stride,\n"
      "batch_tokens, cache_type, exit, carry_state; default: section eval of the recipe.");
  model.def(
      "eval", eval, py::arg("files") = py::none(), py::kw_only(), py::arg("tasks") = py::none(),
      py::arg("num_fewshot") = -1, py::arg("limit") = 0,
      "What `lithe eval --json` measures of the run, as a dict: of models of text their perplexity, of others the\n"
      "metrics of their task or translation. files: data in place of the run's own. tasks: YAML files of tasks and\n"
      "groups as the evaluation harness has them, with num_fewshot examples before each question and limit documents\n"
      "of each; the dict is then in the harness's layout. Settings as of perplexity().");
}

}  // namespace lithe::python
