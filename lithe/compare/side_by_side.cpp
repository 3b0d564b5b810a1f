#include "lithe/compare/side_by_side.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "lithe/base/counted.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/compare/description.h"
#include "lithe/report/page.h"

namespace lithe::compare {
namespace {

// A process that ends when this one does. Between fork and exec nothing but system calls.
pid_t start(const std::string& operation, const SideJob& job, const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  make_directory(job.log.parent_path());
  const int log = ::open(job.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  check(log >= 0, operation, "'", job.log.string(), "' cannot be written: ", std::strerror(errno));
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(log);
  check(child > 0, operation, "no process for ", job.name, ": ", std::strerror(errno));
  return child;
}

// The lines that end within the last bytes of a file, the last first; none where there is no such file.
std::vector<std::string> last_lines(const Path& file) {
  constexpr std::streamoff kBytes = 1 << 16;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? std::streamoff(in.tellg()) : 0;
  std::string text(size_t(std::min(size, kBytes)), '\0');
  in.seekg(size - std::streamoff(text.size()));
  in.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(std::max<std::streamsize>(0, in.gcount())));
  std::vector<std::string> lines;
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  std::reverse(lines.begin(), lines.end());
  return lines;
}

// What a program that failed said last: lithe itself, else any words, not the rules that a launcher draws below.
std::string last_words(const Path& log) {
  const std::vector<std::string> lines = last_lines(log);
  const auto own = std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with("lithe:"); });
  if (own != lines.end()) return *own;
  const auto words = std::ranges::find_if(lines, [](const std::string& line) {
    return std::ranges::any_of(line, [](char c) { return std::isalpha(uint8_t(c)) || uint8_t(c) >= 0x80; });
  });
  return words == lines.end() ? "it said nothing" : *words;
}

// The state of all jobs as a page, which the command's own replaces in the end.
class StatePage {
 public:
  StatePage(const Path& file, const std::vector<SideJob>& jobs)
      : file_(file), jobs_(jobs), states_(jobs.size(), "waiting"), lines_(jobs.size()) {}

  void set(size_t job, const std::string& state) {
    states_[job] = state;
    lines_[job] = progress(jobs_[job].run / "metrics.jsonl");
    written_ = {};
  }

  // Where something changed, and else every few seconds.
  void write() {
    const auto now = std::chrono::steady_clock::now();
    if (file_.empty() || now - written_ < std::chrono::seconds(5)) return;
    written_ = now;
    int64_t done = 0;
    report::Table table{.caption = "", .columns = {{"run"}, {"state"}, {"step", true}, {"loss", true}}, .rows = {}};
    for (size_t i = 0; i < jobs_.size(); ++i) {
      done += states_[i] == kDone;
      std::vector<report::Cell> row{jobs_[i].name, states_[i]};
      if (states_[i] == kRunning) lines_[i] = progress(jobs_[i].run / "metrics.jsonl");
      const Json& line = lines_[i];
      row.push_back(line.contains("step") ? report::Cell::integer(line["step"]) : report::Cell("-"));
      row.push_back(line.contains("loss") && line["loss"].is_number()
                        ? report::Cell(line["loss"].get<double>(), report::Quantity::number, 4)
                        : report::Cell("-"));
      table.rows.push_back(std::move(row));
    }
    report::Page page("Runs", cat(done, " of ", counted(int64_t(jobs_.size()), "run"), " done"), "lithe");
    page.paragraph("Load the page again to see more. The log of a run lies beside its directory.");
    page.table(table);
    make_directory(file_.parent_path());
    write_file(file_, page.html());
  }

  static constexpr const char *kRunning = "running", *kDone = "done";

 private:
  Path file_;
  const std::vector<SideJob>& jobs_;
  std::vector<std::string> states_;
  std::vector<Json> lines_;  // the last of each run's log of numbers; of one that has ended it stays
  std::chrono::steady_clock::time_point written_;

  // The last whole line of a run's log of numbers; nothing where there is none.
  static Json progress(const Path& metrics) {
    for (const std::string& text : last_lines(metrics))
      if (Json line = Json::parse(text, nullptr, false); line.is_object()) return line;
    return Json::object();
  }
};

}  // namespace

SideJob side_job(const std::string& name, const std::vector<std::string>& words, const std::string& only,
                 const Path& run) {
  SideJob job{
      .name = name, .words = {std::filesystem::read_symlink("/proc/self/exe").string()}, .log = run, .run = run};
  job.words.insert(job.words.end(), words.begin(), words.end());
  job.words.insert(job.words.end(), {"--only", only, "--threads", cat(threads())});
  job.log += ".log";
  return job;
}

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

void check_program(const std::string& operation, const Launcher& launcher) {
  if (launcher.type == "local") return;
  const std::string program = launched_words(launcher, 0, 1, {})[0];
  const char* path = std::getenv("PATH");
  std::istringstream places(path ? path : "");
  for (std::string place; std::getline(places, place, ':');)
    if (::access((Path(place) / program).c_str(), X_OK) == 0) return;
  fail_usage(operation, "--launcher ", launcher.type, " starts runs by ", program,
             ", which is in no directory of PATH; install it, or leave --launcher out");
}

bool run_side_by_side(const std::string& operation, const Launcher& launcher, int64_t threads,
                      const std::vector<SideJob>& jobs, const Path& page) {
  if (jobs.empty()) return true;
  struct Running {
    size_t job;
    int64_t slot;
  };
  std::map<pid_t, Running> running;
  std::vector<bool> busy(size_t(launcher.jobs), false);
  size_t next = 0;
  bool told = false;
  std::string failed;
  std::optional<Description> before;  // a page that stays where nothing is done
  if (!page.empty()) before.emplace(page);
  StatePage states(page, jobs);
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
      running[start(operation, jobs[next], launched_words(launcher, slot, threads, jobs[next].words))] = {next, slot};
      states.set(next, StatePage::kRunning);
      ++next;
      continue;
    }
    if (running.empty()) break;
    states.write();
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    const auto found = running.find(ended);
    if (found == running.end()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    const SideJob& job = jobs[found->second.job];
    states.set(found->second.job, WIFEXITED(status) && WEXITSTATUS(status) == 0 ? StatePage::kDone
                                  : told                                        ? "stopped"
                                                                                : "failed");
    busy[size_t(found->second.slot)] = false;
    running.erase(found);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      log_info(job.name, ": done");
      if (before) before->keep();
    } else if (!told && failed.empty())
      failed = cat(job.name, " ended with ",
                   WIFEXITED(status) ? cat("exit code ", WEXITSTATUS(status)) : cat("signal ", WTERMSIG(status)), ": ",
                   last_words(job.log), " (all of it: ", job.log.string(), ")");
  }
  states.write();
  if (before && failed.empty()) before->keep();
  if (told) return false;
  check(failed.empty(), operation, failed);
  return true;
}

}  // namespace lithe::compare
