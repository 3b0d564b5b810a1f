#include "model.h"

#include <pybind11/stl.h>

#include "lithe/base/node.h"
#include "lithe/eval/chat_template.h"
#include "lithe/interchange/import.h"
#include "values.h"

namespace lithe::python {
namespace {

// A directory of Hugging Face's format or a GGUF file, in place of a run.
bool is_foreign(const Path& path) {
  namespace fs = std::filesystem;
  if (fs::is_regular_file(path)) return path.extension() == ".gguf";
  if (!fs::exists(path / "config.json") || fs::exists(path / "resolved_recipe.yaml")) return false;
  const Json config = parse_json(read_file(path / "config.json"), (path / "config.json").string());
  return config.is_object() && config.contains("model_type");
}

std::shared_ptr<PyModel> load(const py::object& path, const std::string& weights, const std::string& precision,
                              bool packed, bool el_rewrite, int64_t context_length, const py::object& import_to) {
  check_usage(precision == "f32" || precision == "bf16" || precision == "f64", "load",
              "precision must be f32, bf16 or f64, got '", precision, "'");
  Path run = path_of(path);
  const bool foreign = is_foreign(run), temporary = foreign && import_to.is_none();
  check_usage(foreign || (import_to.is_none() && !context_length), "load", "'", run.string(),
              "' is no directory of the Hugging Face format and no GGUF file; leave import_to and context_length out");
  Path from;
  if (foreign) {
    from = run;
    run =
        temporary
            ? Path(py::module_::import("tempfile").attr("mkdtemp")(py::arg("prefix") = "lithe-").cast<std::string>()) /
                  "run"
            : path_of(import_to);
  }
  const LoadOptions options{.weights = weights, .precision = precision, .packed = packed, .el_rewrite = el_rewrite};
  return long_call([&] {
    try {
      if (foreign) import_model({.from = from, .out = run, .context_length = context_length});
      return std::make_shared<PyModel>(run, options, temporary);
    } catch (...) {
      std::error_code ignored;
      if (temporary) std::filesystem::remove_all(run.parent_path(), ignored);
      throw;
    }
  });
}

// Names of parameters to arrays of their memory.
py::dict parameters(const std::shared_ptr<PyModel>& self) {
  check_usage(!self->options.packed, "parameters",
              "the weights are packed for inference and are no rows of numbers; load with packed=False");
  py::dict out;
  for (const Parameter& p : self->model().parameters().all()) {
    const Tensor numbers = p.master.value();
    if (!numbers.defined() || numbers.is_meta()) continue;  // integer weights
    out[py::str(p.name)] = Array{.tensor = numbers, .readonly = true, .owner = self};
  }
  return out;
}

py::str chat_prompt(const PyModel& self, const py::object& messages) {
  const std::optional<ChatTemplate> chat = ChatTemplate::of_run(self.run, self.tokenizer());
  check_usage(chat.has_value(), "chat", "'", self.run.string(), "' has no chat_template.jinja");
  return text_of(chat->text(to_json_value(messages)));
}

}  // namespace

PyModel::PyModel(const Path& directory, const LoadOptions& how, bool temporary)
    : run(directory),
      options(how),
      recipe(recipe_of_run(directory)),
      loaded(load_model(directory, how.weights, how.precision, how.el_rewrite, how.packed)),
      temporary_(temporary) {}

PyModel::~PyModel() {
  std::error_code ignored;
  if (temporary_) std::filesystem::remove_all(run.parent_path(), ignored);
}

py::str text_of(const std::string& bytes) {
  PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), Py_ssize_t(bytes.size()), "replace");
  if (!text) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

std::vector<std::string> texts_of(const py::object& given, bool& alone) {
  alone = py::isinstance<py::str>(given);
  std::vector<std::string> out;
  if (alone) return {utf8_of(given)};
  for (const py::handle item : given) out.push_back(utf8_of(item));
  return out;
}

void add_model(py::module_& module) {
  ModelClass model(
      module, "Model",
      "A trained model and its tokenizer, as load() gives it. Every method may be called by several threads:\n"
      "one model does one thing at a time, other threads of Python go on. Not to be pickled: load it anew.");
  model
      .def_property_readonly(
          "path", [](const PyModel& self) { return self.run.string(); }, "The directory that it was read from.")
      .def_property_readonly(
          "precision", [](const PyModel& self) { return self.options.precision; }, "f32, bf16 or f64.")
      .def_property_readonly(
          "config",
          [](const PyModel& self) {
            ModelConfig config = self.model().config();
            return from_json(parse_json(to_json(write_fields([&](Fields& f) { config.fields(f); })), "config"));
          },
          "The section model of the recipe, with every default.")
      .def_property_readonly(
          "recipe", [](const PyModel& self) { return from_json(parse_json(to_json(resolved(self.recipe)), "recipe")); },
          "The recipe that it was made with, with every default.")
      .def_property_readonly(
          "architecture", [](const PyModel& self) { return std::string(name_of(self.model().config().architecture)); },
          "decoder, encoder or encoder_decoder.")
      .def_property_readonly(
          "num_parameters", [](const PyModel& self) { return self.model().parameters().count(); },
          "Numbers that training would move.")
      .def_property_readonly(
          "max_length", [](const PyModel& self) { return self.model().position_limit(); },
          "Tokens of the longest text that positions allow; 0: any.")
      .def_property_readonly(
          "tokenizer", [](const PyModel& self) { return std::const_pointer_cast<Tokenizer>(self.loaded.tokenizer); },
          "Texts to tokens and back.")
      .def_property_readonly(
          "source_tokenizer",
          [](const PyModel& self) { return std::const_pointer_cast<Tokenizer>(self.loaded.source_tokenizer); },
          "Of the source of an encoder_decoder; else None.")
      .def_property_readonly(
          "parameters", parameters,
          "Names of the weights to read-only arrays of the model's own memory. Needs load(packed=False).")
      .def("chat_prompt", chat_prompt, py::arg("messages"),
           "The text of a conversation, [{'role': 'user', 'content': 'Hello'}], by the model's own template, up to "
           "where\n"
           "the assistant goes on.")
      .def("__repr__",
           [](const PyModel& self) {
             return cat("<lithe.Model '", self.run.string(), "', ", self.model().parameters().count(), " parameters, ",
                        self.options.precision, ">");
           })
      .def("__reduce__", [](const PyModel&) -> py::object {
        throw py::type_error("a model cannot be pickled; load it in each process by lithe.load(path)");
      });
  add_generation(module, model);
  add_scores(module, model);
  add_tasks(module, model);
  add_forward(module, model);
  add_evaluation(model);
  module.def(
      "load", load, py::arg("path"), py::kw_only(), py::arg("weights") = "", py::arg("precision") = "f32",
      py::arg("packed") = true, py::arg("el_rewrite") = false, py::arg("context_length") = 0,
      py::arg("import_to") = py::none(),
      "Loads a run directory, a directory of the Hugging Face format, or a GGUF file.\n\n"
      "weights: '' (the last), 'best', 'averaged' or a file. precision: f32, bf16 or f64.\n"
      "packed: weights are laid out for fast products; False where `parameters` are to be read.\n"
      "el_rewrite: attention with heads mha runs with heads el_rewrite, the same function with half the cache.\n"
      "Models of other programs are imported first: to import_to, a new directory, or to a temporary one, which goes\n"
      "with the model; context_length: tokens of their longest text, where positions allow any.");
}

}  // namespace lithe::python
