#include "lithe/parallel/job.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include "lithe/base/log.h"
#include "lithe/parallel/gather.h"
#include "lithe/parallel/mpi.h"

namespace lithe {
namespace {

int number_in(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

// As the launcher's variables number it, before the ranks have met.
int rank_of_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (std::getenv(name)) return number_in(name, 0);
  return 0;
}

class Alone final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Request> send(std::span<const std::byte>, int to, int) override { nobody(to); }
  std::unique_ptr<Request> receive(std::span<std::byte>, int from, int) override { nobody(from); }
  std::unique_ptr<Communicator> split(int) override { return std::make_unique<Alone>(); }

 private:
  [[noreturn]] static void nobody(int rank) { fail("ranks", "there is no rank ", rank, " in a job of one"); }
};

struct State {
  const LitheMpi* mpi = nullptr;
  std::unique_ptr<Communicator> ranks = std::make_unique<Alone>();
  bool agreed = false;  // all ranks throw the same error
};

// Lives until the process has ended: static objects that go before may still leave the job.
State& state() {
  static State* state = new State;
  return *state;
}

std::string host() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

Launched launched() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE"))
    return {number_in("OMPI_COMM_WORLD_RANK", 0), number_in("OMPI_COMM_WORLD_SIZE", 1), "Open MPI"};
  if (const int tasks = number_in("SLURM_STEP_NUM_TASKS", 1); std::getenv("SLURM_PROCID") && tasks > 1)
    return {number_in("SLURM_PROCID", 0), tasks, "Slurm"};
  if (std::getenv("PMI_SIZE")) return {number_in("PMI_RANK", 0), number_in("PMI_SIZE", 1), "PMI"};
  return {};
}

int ranks_here() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"})
    if (const int n = number_in(name, 0); n > 0)
      return std::min(n, job().size());  // Slurm: "4(x2),3", the first node's
  return 1;
}

Communicator& job() { return *state().ranks; }

void join_job() {
  State& s = state();
  const Launched by = launched();
  if (s.mpi || by.size <= 1) return;
  check_usage(by.by != "Slurm" || std::getenv("PMIX_RANK") || std::getenv("PMI_RANK") || std::getenv("PMI_FD"), "ranks",
              "srun started ", by.size, " tasks that cannot find each other; give srun --mpi=pmix");
  if (by.rank > 0) set_log_level(LogLevel::error);
  s.mpi = &load_mpi_plugin();
  s.ranks = mpi_world(*s.mpi);
  check(s.ranks->size() == by.size, "ranks", by.by, " started ", by.size, " ranks, and MPI found ", s.ranks->size(),
        "; is the plug-in built for another MPI than the launcher's?");
  if (s.ranks->rank() > 0) set_log_level(LogLevel::error);
}

void throw_if_any_failed(const Error* mine) {
  State& s = state();
  std::string told;
  if (mine) told = cat(int(mine->code()), ' ', mine->operation(), '\n', mine->what());
  const std::vector<std::string> all = gather_bytes(*s.ranks, told);
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    s.agreed = true;
    const size_t blank = all[r].find(' '), line = all[r].find('\n');
    const std::string operation = all[r].substr(blank + 1, line - blank - 1);
    std::string message = all[r].substr(line + 1 + operation.size() + 2);
    if (r > 0) message += cat(" (rank ", r, ")");
    throw Error(operation, message, ExitCode(std::stoi(all[r])));
  }
}

void say_in_job(const std::string& line, int code) {
  State& s = state();
  const int rank = job().rank(), size = job().size();
  // A job that was not joined yet fails alike everywhere: the launcher ends it when rank 0 has said so.
  if (!s.mpi && rank_of_environment() > 0) std::this_thread::sleep_for(std::chrono::seconds(5));
  if (rank == 0 || size == 1) {
    std::cerr << "lithe: " << line << std::endl;
    return;
  }
  if (s.agreed) return;  // rank 0 says the same
  std::string bytes(sizeof code, 0);
  std::memcpy(bytes.data(), &code, sizeof code);
  const std::string who = cat("rank ", rank, " of ", size, " on ", host());
  bytes += cat(who, '\n', line);
  try {
    // Rank 0 finds it when it waits for a message, and ends the job, this rank with it.
    const auto sent = job().send(std::as_bytes(std::span(bytes.data(), bytes.size())), 0, kErrorTag);
    std::this_thread::sleep_for(std::chrono::seconds(4));
  } catch (const Error&) {
  }
  std::cerr << "lithe: " << who << ": " << line << std::endl;
}

void leave_job(int code) {
  State& s = state();
  if (!s.mpi) return;
  if (code == 0 || s.agreed || code > 128)
    s.mpi->finalize();
  else
    s.mpi->abort(code);
  s.mpi = nullptr;
  s.ranks = std::make_unique<Alone>();
}

}  // namespace lithe
