#include <pybind11/stl.h>

#include "lithe/base/stop.h"
#include "lithe/eval/prediction.h"
#include "lithe/eval/sentence_rows.h"
#include "lithe/eval/similarity.h"
#include "lithe/infer/translate.h"
#include "lithe/infer/tree_step.h"
#include "lithe/model/exits.h"
#include "model.h"
#include "values.h"

namespace lithe::python {
namespace {

Array encode(const PyModel& self, const py::object& texts, const std::optional<std::string>& pooling,
             std::optional<bool> normalize) {
  bool alone = false;
  const std::vector<std::string> all = texts_of(texts, alone);
  check_usage(!all.empty(), "encode", "there are no texts to encode");
  EncodeConfig config = self.recipe.encode;
  if (pooling) config.pooling = *pooling;
  check_usage(
      config.pooling == "cls" || config.pooling == "last" || config.pooling == "mean" || config.pooling == "max",
      "encode", "pooling must be one of cls, last, mean, max, got '", config.pooling, "'");
  return self.alone([&] {
    const Tensor rows = sentence_rows(self.model(), self.tokenizer(), all, config.pooling,
                                      self.recipe.data.sequence_length, self.recipe.data.truncation);
    const Tensor out = normalize.value_or(config.normalize) ? normalize_rows(rows) : rows;
    return Array{.tensor = alone ? out.reshape({out.cols()}) : out};
  });
}

// A text, or two as a tuple.
std::string line_of(const py::handle& item) {
  if (!py::isinstance<py::tuple>(item)) return utf8_of(item);
  const auto [first, second] = cast_of<std::pair<std::string, std::string>>(item, "a pair", "a tuple of two strs");
  return first + "\t" + second;
}

std::vector<Example> examples_of(const PyModel& self, const py::object& texts, const py::object& features,
                                 const std::map<std::string, std::vector<std::string>>& sources) {
  const TaskType type = task_type(self.recipe.task);
  std::vector<Example> out;
  if (!texts.is_none())
    for (const py::handle item : texts) out.push_back(example_without_label(line_of(item), type));
  if (!features.is_none()) {
    const char* modality = self.recipe.data.audio.given() ? "audio" : "image";
    check_usage(self.recipe.data.image.given() || self.recipe.data.audio.given(), "predict",
                "files are for models that read pictures or sounds; this one reads text alone");
    const auto files = features.cast<std::vector<py::object>>();
    if (texts.is_none()) out.resize(files.size());
    check_usage(files.size() == out.size(), "predict", "there are ", out.size(), " texts and ", files.size(),
                " files; give one for each");
    for (size_t i = 0; i < out.size(); ++i) out[i].features[modality] = path_of(files[i]).string();
  }
  for (const auto& [name, of] : sources) {
    check_usage(of.size() == out.size(), "predict", "there are ", out.size(), " texts, and ", of.size(), " of source '",
                name, "'; give one for each");
    for (size_t i = 0; i < of.size(); ++i) out[i].sources[name] = of[i];
  }
  for (const auto& [name, column] : self.recipe.task.further_sources())
    check_usage(sources.count(name), "predict", "the model reads a text of ", name, " beside each; give sources={'",
                name, "': [...]}");
  if (type == TaskType::text)
    for (Example& e : out) e.answers.resize(1);
  return out;
}

py::object predict(const PyModel& self, const py::object& texts, const py::object& files,
                   const std::map<std::string, std::vector<std::string>>& sources, const std::string& exit) {
  const Recipe& recipe = self.recipe;
  check_usage(recipe.has_task() || recipe.train.objective.type == "task", "predict", "'", self.run.string(),
              "' was not trained on a task; a recipe with a section task makes such a model");
  const bool alone = py::isinstance<py::str>(texts) || py::isinstance<py::tuple>(texts);
  std::vector<Example> examples = examples_of(self, alone ? py::object(py::make_tuple(texts)) : texts, files, sources);
  if (examples.empty()) return py::list();
  const TaskType type = task_type(recipe.task);
  const Json answers = self.alone([&] {
    const TaskBatches batches(std::move(examples), type, self.tokenizer(), recipe.data.sequence_length,
                              recipe.train.batch_tokens, 0, false, task_reading(recipe));
    std::optional<ExitRun> exits = exit_run_of(self.model(), exit);
    const TaskAnswers found = answer(self.model(), batches, {}, exits ? &*exits : nullptr);
    Json out = Json::array();
    for (size_t i = 0; i < found.predictions.size() && !stop_signal(); ++i)
      out.push_back(prediction_json(type, found, i, self.model().config().label_names));
    return out;
  });
  return alone && !answers.empty() ? from_json(answers[0]) : from_json(answers);
}

py::object translate_texts(const PyModel& self, const py::object& texts, const std::string& prefix,
                           const FurtherTexts& sources, const py::kwargs& given) {
  py::kwargs settings = given;
  bool alone = false;
  const std::vector<std::string> all = texts_of(texts, alone);
  TranslateConfig config = self.recipe.translate;
  const auto n_best = take<std::optional<int64_t>>(settings, "n_best");
  const bool trees = take<bool>(settings, "trees"), beams = settings.contains("num_beams");
  const bool length = settings.contains("max_new_tokens");
  read_settings(settings, "translate", [&](Fields& f) { config.fields(f); });
  if (n_best) config.num_return_sequences = *n_best;
  if (trees && !config.do_sample) config.do_sample = true, config.top_k = 1;  // greedy
  if (trees && !length && !config.max_new_tokens) config.max_new_tokens = 1024;
  if (config.do_sample && !beams) config.num_beams = 1;
  config.validate();
  check_usage(self.loaded.source_tokenizer != nullptr, "translate", "'", self.run.string(),
              "' holds no encoder_decoder; generate() continues texts");
  TranslationExtras extras{.further = sources};
  if (trees && self.tokenizer().specials().eos)
    extras.steps.push_back(tree_step(self.tokenizer(), {*self.tokenizer().specials().eos}));
  std::vector<std::vector<Translation>> found = self.alone([&] {
    return translate(self.model(), *self.loaded.source_tokenizer, self.tokenizer(), all, config, prefix, {}, 1, extras);
  });
  py::list out;
  for (std::vector<Translation>& of : found) {
    if (n_best)
      out.append(py::cast(std::move(of)));
    else
      out.append(of.empty() ? py::object(py::none()) : py::cast(std::move(of[0])));
  }
  return alone && !out.empty() ? py::object(out[0]) : py::object(out);
}

}  // namespace

void add_tasks(py::module_& module, ModelClass& model) {
  py::class_<Translation>(module, "Translation", "One translation of a sentence.")
      .def_property_readonly(
          "text", [](const Translation& t) { return text_of(t.text); }, "Its text.")
      .def_readonly("tokens", &Translation::tokens, "Ids, without those that begin and end it.")
      .def_readonly("score", &Translation::score, "Its log-probability over ((5 + tokens) / 6) ^ length_penalty.")
      .def_readonly("log_probability", &Translation::log_probability, "Natural log, the end token counted.")
      .def("__str__", [](const Translation& t) { return text_of(t.text); })
      .def("__repr__", [](const Translation& t) {
        return "Translation(" + std::string(py::repr(text_of(t.text))) + cat(", score=", t.score, ")");
      });
  model.def(
      "encode", encode, py::arg("texts"), py::kw_only(), py::arg("pooling") = py::none(),
      py::arg("normalize") = py::none(),
      "Sentence vectors, f32 [texts, hidden_size] (of one str [hidden_size]), as `lithe encode` writes them. pooling:\n"
      "cls, last, mean or max; normalize: scaled to length 1; default: section encode of the recipe.");
  const char* help =
      "What the model learnt to say of texts: dicts with label, probability and probabilities (classification), value\n"
      "(regression), tags (tagging), heads and labels (parsing), answer (span, text), as `lithe predict --json` "
      "prints.\n"
      "A str or a tuple of two texts gives one dict, a list of them a list. files: the pictures or sounds beside the "
      "texts,\n"
      "or alone. sources: texts of further encoders by name. exit: a rule of early exits.";
  for (const char* name : {"predict", "classify"})
    model.def(name, predict, py::arg("texts") = py::none(), py::kw_only(), py::arg("files") = py::none(),
              py::arg("sources") = std::map<std::string, std::vector<std::string>>(), py::arg("exit") = "", help);
  model.def(
      "translate", translate_texts, py::arg("texts"), py::kw_only(), py::arg("prefix") = "",
      py::arg("sources") = FurtherTexts(),
      "Translations of sentences, as `lithe translate` gives them: of a str one Translation, of a list a list; with\n"
      "n_best each is a list of so many, the best first. prefix: what every translation begins with. sources: texts "
      "of\n"
      "further encoders by name. Settings: num_beams, length_penalty, early_stopping, max_new_tokens, min_new_tokens,\n"
      "batch_size, do_sample, temperature, top_k, top_p, min_p, seed, trees.");
}

}  // namespace lithe::python
