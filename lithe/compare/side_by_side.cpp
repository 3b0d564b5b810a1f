#include "lithe/compare/side_by_side.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>

#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"

namespace lithe::compare {
namespace {

// A process that ends when this one does. Between fork and exec nothing but system calls.
pid_t start(const SideJob& job, const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  make_directory(job.log.parent_path());
  const int log = ::open(job.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  check(log >= 0, "compare", "'", job.log.string(), "' cannot be written: ", std::strerror(errno));
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(log);
  check(child > 0, "compare", "no process for ", job.name, ": ", std::strerror(errno));
  return child;
}

std::string last_line(const Path& log) {
  std::string text = read_file(log);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.find_last_of('\n') + 1);
}

}  // namespace

std::vector<std::string> launched_words(const Launcher& launcher, int64_t slot, int64_t threads,
                                        const std::vector<std::string>& words) {
  std::vector<std::string> out;
  if (launcher.type == "slurm") out = {"srun", "--nodes=1", "--ntasks=1", "--exact", cat("--cpus-per-task=", threads)};
  if (launcher.type == "mpi") out = {"mpirun", "--bind-to", "none", "-n", "1"};
  if (launcher.type == "mpi" && !launcher.hosts.empty())
    out.insert(out.end(), {"--host", launcher.hosts[size_t(slot) % launcher.hosts.size()]});
  out.insert(out.end(), words.begin(), words.end());
  return out;
}

bool run_side_by_side(const Launcher& launcher, int64_t threads, const std::vector<SideJob>& jobs) {
  struct Running {
    size_t job;
    int64_t slot;
  };
  std::map<pid_t, Running> running;
  std::vector<bool> busy(size_t(launcher.jobs), false);
  size_t next = 0;
  bool told = false;
  std::string failed;
  while (next < jobs.size() || !running.empty()) {
    if (!told && stop_signal()) {
      told = true;
      for (const auto& [child, of] : running) ::kill(child, SIGTERM);
    }
    const auto free = std::find(busy.begin(), busy.end(), false);
    if (next < jobs.size() && free != busy.end() && !told && failed.empty()) {
      const auto slot = int64_t(free - busy.begin());
      *free = true;
      log_info(jobs[next].name, ": begins (", next + 1, " of ", jobs.size(), ")");
      running[start(jobs[next], launched_words(launcher, slot, threads, jobs[next].words))] = {next, slot};
      ++next;
      continue;
    }
    if (running.empty()) break;
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    const auto found = running.find(ended);
    if (found == running.end()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    const SideJob& job = jobs[found->second.job];
    busy[size_t(found->second.slot)] = false;
    running.erase(found);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
      log_info(job.name, ": done");
    else if (!told && failed.empty())
      failed = cat(job.name, " ended with ",
                   WIFEXITED(status) ? cat("exit code ", WEXITSTATUS(status)) : cat("signal ", WTERMSIG(status)), ": ",
                   last_line(job.log), " (all of it: ", job.log.string(), ")");
  }
  if (told) return false;
  check(failed.empty(), "compare", failed);
  return true;
}

}  // namespace lithe::compare
