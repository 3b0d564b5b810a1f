#include "lithe/base/stop.h"

#include <atomic>
#include <csignal>

namespace lithe {
namespace {

// Atomic, not only volatile: the signal may arrive on any thread, and the loops that poll are on others.
std::atomic<int> pending = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a handler may use nothing else");

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
