#include <unistd.h>

#include <cstdlib>
#include <new>

#include "lithe/cli/command.h"

namespace {

// Threads that wait for the others spin for a while before they sleep. The OpenMP runtime's own while is long: on a
// machine with other work each wait then takes the other's processor, and speed falls to a fifth. It reads its settings
// before main(), so the program starts itself again with a short one, unless the user has chosen.
void wait_politely(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  execv("/proc/self/exe", argv);  // on failure the program runs as it was started
}

// Libraries allocate before main(), where nobody can catch that they could not.
[[noreturn]] void no_memory_to_start() {
  constexpr char kLine[] =
      "lithe: memory: a limit of addresses (ulimit -v or -d) leaves too little to start; raise the limit\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kLine, sizeof kLine - 1);
  _exit(1);
}

__attribute__((constructor(101))) void before_static_objects() { std::set_new_handler(no_memory_to_start); }

}  // namespace

int main(int argc, char** argv) {
  std::set_new_handler(nullptr);
  wait_politely(argv);
  return lithe::run_program(argc, argv);
}
