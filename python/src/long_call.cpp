#include "long_call.h"

#include <atomic>
#include <csignal>

#include "lithe/base/stop.h"

namespace lithe::python {
namespace {

std::atomic<bool> heard = false;
int depth = 0;  // of calls in the main thread, under the interpreter's lock
struct sigaction before;

void hear(int signal) {
  if (heard.exchange(true)) PyErr_SetInterrupt();
  set_stop_signal(signal);
}

bool in_main_thread() {
  const py::object main = py::module_::import("threading").attr("main_thread")();
  return main.attr("ident").cast<unsigned long>() == PyThread_get_thread_ident();
}

}  // namespace

HearsInterrupt::HearsInterrupt() : hears_(in_main_thread()) {
  if (!hears_ || depth++ > 0) return;
  heard = false;
  struct sigaction action = {};
  action.sa_handler = hear;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
}

HearsInterrupt::~HearsInterrupt() {
  if (!hears_ || --depth > 0) return;
  sigaction(SIGINT, &before, nullptr);
  if (heard) set_stop_signal(0);
}

void HearsInterrupt::tell_python() {
  if (!hears_ || depth > 1 || !heard) return;
  PyErr_SetInterrupt();
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace lithe::python
