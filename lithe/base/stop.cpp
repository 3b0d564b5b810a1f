#include "lithe/base/stop.h"

#include <signal.h>

#include <atomic>
#include <csignal>

#include "lithe/base/deferred_stop.h"
#include "lithe/base/error.h"

namespace lithe {
namespace {

// Atomic, not only volatile: the signal may arrive on any thread, and the loops that poll are on others.
std::atomic<int> pending = 0, deferred = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a handler may use nothing else");

void remember(int signal) {
  pending = signal;
  if (signal != SIGUSR1) std::signal(signal, SIG_DFL);  // which schedulers send, to a process and to its group
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {}, old = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    ::sigaction(signal, &action, &old);
    if (signal == SIGHUP && old.sa_handler == SIG_IGN) ::sigaction(signal, &old, nullptr);
  }
}

int stop_signal() { return deferred > 0 ? 0 : pending.load(); }

DeferredStop::DeferredStop(bool on) : on_(on) { deferred += on_; }
DeferredStop::~DeferredStop() { deferred -= on_; }

void check_not_stopped(const char* operation, const char* what) {
  check(!stop_signal(), operation, "stopped by signal ", stop_signal(), "; ", what);
}

void set_stop_signal(int signal) { pending = signal; }

}  // namespace lithe
