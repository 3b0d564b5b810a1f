// SIGINT, SIGTERM, SIGHUP and SIGUSR1 (which a batch system sends before the end of a job) become a flag that every
// loop polls; a second signal ends the process at once, except SIGUSR1, which schedulers send twice.
#pragma once

namespace lithe {

/// Installs the handlers. Call once, at the start of a command that saves what it did. Under nohup SIGHUP stays
/// ignored.
void catch_stop_signals();

/// The number of the signal that asked to stop, or 0.
int stop_signal();

/// Fails when a signal asked to stop, so that the program ends with 128 + its number: "OPERATION: stopped by signal 15;
/// WHAT".
void check_not_stopped(const char* operation, const char* what);

/// For tests: as if `signal` had arrived; 0 clears.
void set_stop_signal(int signal);

}  // namespace lithe
