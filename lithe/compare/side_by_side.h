// Runs of a comparison, a search or a fine-tuning as processes of their own, several at the same time.
#pragma once

#include <string>
#include <vector>

#include "lithe/base/files.h"

namespace lithe::compare {

/// Who starts them, and how many at the same time.
struct Launcher {
  std::string type = "local";      // local: here; slurm: srun; mpi: mpirun, on `hosts` in turn
  std::vector<std::string> hosts;  // none: this machine
  int64_t jobs = 1;
  bool alone() const { return type == "local" && jobs == 1; }
};

/// What is started: a program and its words, without a shell. What it says goes to `log`.
struct SideJob {
  std::string name;
  std::vector<std::string> words;
  Path log;
  Path run = {};  // the run directory that it writes; its metrics.jsonl says how far it is
};
/// This program for one run alone: `words` --only `only`, with as many threads as here. The log is `run`.log.
SideJob side_job(const std::string& name, const std::vector<std::string>& words, const std::string& only,
                 const Path& run);

/// The words with those of the launcher before them. `slot`: which of the jobs at the same time it is, from 0.
std::vector<std::string> launched_words(const Launcher& launcher, int64_t slot, int64_t threads,
                                        const std::vector<std::string>& words);

/// Fails (usage), in the name of `operation`, where the launcher's program is not in PATH.
void check_program(const std::string& operation, const Launcher& launcher);

/// Runs all, at most Launcher::jobs at the same time, begun in their order. False when a signal came: it is handed on,
/// and all have ended. Fails, in the name of `operation`, with what a job that failed said last, after those that ran
/// beside it have ended: the last line of lithe, else the last with a letter (a launcher ends with rules and empty
/// lines). `page`: shows the state of each while they run, anew every few seconds; empty: none. A page of before
/// comes back where a job failed and none was done. Without jobs nothing is done.
bool run_side_by_side(const std::string& operation, const Launcher& launcher, int64_t threads,
                      const std::vector<SideJob>& jobs, const Path& page = {});

}  // namespace lithe::compare
