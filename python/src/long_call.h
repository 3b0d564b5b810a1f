// Calls that may take long: other threads of Python run meanwhile, and Ctrl-C ends them.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <optional>

namespace lithe::python {

namespace py = pybind11;

/// SIGINT becomes lithe's stop signal while it lives, in the main thread of Python alone: elsewhere nothing changes. A
/// second SIGINT goes to Python as well.
class HearsInterrupt {
 public:
  HearsInterrupt();
  ~HearsInterrupt();
  HearsInterrupt(const HearsInterrupt&) = delete;
  HearsInterrupt& operator=(const HearsInterrupt&) = delete;
  /// Has Python handle a SIGINT that came: throws KeyboardInterrupt where its handler does.
  void tell_python();

 private:
  bool hears_;
};

/// f() without the interpreter's lock. f must not touch objects of Python but under a gil_scoped_acquire. After Ctrl-C
/// its result, or its error, gives way to KeyboardInterrupt.
template <class F>
auto long_call(F&& f) {
  HearsInterrupt interrupt;
  std::optional<decltype(f())> result;
  std::exception_ptr error;
  {
    const py::gil_scoped_release released;
    try {
      result.emplace(f());
    } catch (...) {
      error = std::current_exception();
    }
  }
  interrupt.tell_python();
  if (error) std::rethrow_exception(error);
  return std::move(*result);
}

}  // namespace lithe::python
