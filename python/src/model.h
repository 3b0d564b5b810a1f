// A loaded model as an object of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <mutex>

#include "array.h"
#include "lithe/infer/load.h"
#include "lithe/recipe/recipe.h"
#include "long_call.h"

namespace lithe::python {

struct LoadOptions {
  std::string weights, precision = "f32";
  bool packed = true, el_rewrite = false;
};

/// What threads share: one of them runs it at a time.
class PyModel {
 public:
  /// `temporary`: removed with the model.
  PyModel(const Path& run, const LoadOptions& options, bool temporary);
  ~PyModel();
  PyModel(const PyModel&) = delete;
  PyModel& operator=(const PyModel&) = delete;

  const Path run;
  const LoadOptions options;
  const Recipe recipe;
  const LoadedModel loaded;
  const Model& model() const { return *loaded.model; }
  const Tokenizer& tokenizer() const { return *loaded.tokenizer; }
  /// What the encoder of an encoder-decoder reads; else the one tokenizer.
  const Tokenizer& read_tokenizer() const {
    return loaded.source_tokenizer ? *loaded.source_tokenizer : *loaded.tokenizer;
  }
  /// long_call(f), alone with the model. Callbacks of the same thread may call the model again.
  template <class F>
  auto alone(F&& f) const {
    return long_call([&] {
      const std::lock_guard lock(mutex_);
      return f();
    });
  }

 private:
  const bool temporary_;
  mutable std::recursive_mutex mutex_;
};

using ModelClass = py::class_<PyModel, std::shared_ptr<PyModel>>;

/// A text of lithe, whose bytes may be no UTF-8.
py::str text_of(const std::string& bytes);
/// A str alone, or an iterable of them; `alone` says which.
std::vector<std::string> texts_of(const py::object& given, bool& alone);

void add_tokenizer(py::module_& module);
void add_generation(py::module_& module, ModelClass& model);
void add_scores(py::module_& module, ModelClass& model);
void add_tasks(py::module_& module, ModelClass& model);
void add_forward(py::module_& module, ModelClass& model);
void add_evaluation(ModelClass& model);
void add_training(py::module_& module);

}  // namespace lithe::python
