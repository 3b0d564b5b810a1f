#include "lithe/base/stop.h"

#include <csignal>

namespace lithe {
namespace {

volatile std::sig_atomic_t pending = 0;

void remember(int signal) {
  pending = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
}

int stop_signal() { return pending; }

void set_stop_signal(int signal) { pending = signal; }

}  // namespace lithe
