// The module lithe._lithe.
#include <regex>

#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/threads.h"
#include "model.h"

namespace lithe::python {
namespace {

PyObject* error_type = nullptr;  // lithe.Error, for the process's life

const char* name_of_code(ExitCode code) {
  switch (code) {
    case ExitCode::usage: return "usage";
    case ExitCode::diverged: return "diverged";
    case ExitCode::memory: return "memory";
    case ExitCode::done:
    case ExitCode::failed: break;
  }
  return "failed";
}

// Where a message says a place, "recipe: FILE:LINE:COLUMN: ...", it becomes attributes. A dict has no lines: they are
// taken out.
void raise(const Error& error) {
  static const std::regex of_dict("the dict:[0-9]+:[0-9]+"), place("^[^:]*: ([^:]+):([0-9]+):([0-9]+): ");
  const std::string message = std::regex_replace(std::string(error.what()), of_dict, "the dict");
  const py::object made = py::reinterpret_borrow<py::object>(error_type)(text_of(message));
  made.attr("operation") = text_of(error.operation());
  made.attr("code") = name_of_code(error.code());
  std::smatch at;
  if (std::regex_search(message, at, place)) {
    made.attr("file") = text_of(at[1]);
    made.attr("line") = std::stoi(at[2]);
    made.attr("column") = std::stoi(at[3]);
  }
  PyErr_SetObject(error_type, made.ptr());
}

void add_error(py::module_& module) {
  py::dict attributes;
  attributes["__doc__"] =
      "What lithe refuses or cannot do, as one line: operation, rule, values, remedy.\n\n"
      "code: usage, diverged, memory or failed. file, line, column: the place in a recipe, where there is one; else "
      "None.";
  for (const char* name : {"operation", "code", "file", "line", "column"}) attributes[name] = py::none();
  attributes["__module__"] = "lithe";
  error_type = PyErr_NewException("lithe.Error", PyExc_RuntimeError, attributes.ptr());
  if (!error_type) throw py::error_already_set();
  module.attr("Error") = py::handle(error_type);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    } catch (const py::cast_error&) {
      PyErr_SetString(PyExc_TypeError, "an argument, or an item of one, has a type that is not taken here");
    }
  });
}

void set_level(const std::string& name) {
  const std::string_view names[] = {"debug", "info", "warning", "error"};
  for (int i = 0; i < 4; ++i)
    if (names[i] == name) return set_log_level(LogLevel(i));
  fail_usage("log", "a level is debug, info, warning or error, not '", name, "'");
}

}  // namespace

void add_model(py::module_& module);

PYBIND11_MODULE(_lithe, module) {
  add_error(module);
  add_array(module);
  add_tokenizer(module);
  add_model(module);
  add_training(module);
  module.attr("__version__") = build_info().version;
  module.def(
      "set_threads",
      [](int n) {
        check_usage(n >= 1, "threads", "must be at least 1, got ", n);
        set_threads(n);
      },
      py::arg("n"), "Threads that each call uses. Results are the same bits for the same number of threads.");
  module.def("threads", &threads, "Threads that each call uses.");
  module.def("set_log_level", set_level, py::arg("level"),
             "What goes to standard error: debug, info (default), warning or error.");
}

}  // namespace lithe::python
