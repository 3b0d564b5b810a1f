// The job that a launcher (mpirun, srun) started this process in, as one of its ranks.
#pragma once

#include <string>

#include "lithe/base/error.h"
#include "lithe/parallel/communicator.h"

namespace lithe {

/// What the launcher's environment variables say of this process; size 1 where there is none.
struct Launched {
  int rank = 0, size = 1;
  std::string by;  // "Open MPI", "Slurm"; empty: nobody
};
Launched launched();

/// How many ranks of the job this machine has, as the launcher says; 1 where it does not.
int ranks_here();

/// All ranks of the job. Of one that no launcher started: rank 0 of 1, which sends nothing.
Communicator& job();

/// Joins the job: loads the MPI plug-in where the launcher started more than one rank, and silences the log of all
/// ranks but the first. To be called once, by a command that can run on several ranks, before it does anything else.
/// Fails (usage) when the plug-in is missing, and when srun started several tasks that cannot find each other.
void join_job();

/// This rank speaks for the job: it prints, and writes what all know. Also true of a process on its own.
inline bool speaks_for_job() { return job().rank() == 0; }

/// What a rank tells of an error, so that one line names it. Rank 0 tells the user; another rank tells rank 0 first,
/// and speaks itself when that does not answer within seconds.
void say_in_job(const std::string& line, int code);

/// Ends this rank's part in the job. `code` 0: waits for the others. Otherwise the job ends with this code at once.
void leave_job(int code);

/// Runs `work` on every rank, which must not exchange messages in it, and throws on all of them when it failed on one:
/// the error of the lowest such rank.
template <class Work>
void together(Work&& work);
void throw_if_any_failed(const Error* mine);

/// together(), first on the rank that speaks for the job: what it puts into caches the others find there.
template <class Work>
void in_turns(Work&& work) {
  for (const bool speaks : {true, false})
    together([&] {
      if (speaks_for_job() == speaks) work();
    });
}

template <class Work>
void together(Work&& work) {
  if (job().size() == 1) return work();
  try {
    work();
  } catch (const Error& error) {
    throw_if_any_failed(&error);
    throw;
  } catch (const std::exception& other) {
    const Error error("internal", other.what());
    throw_if_any_failed(&error);
    throw;
  }
  throw_if_any_failed(nullptr);
}

}  // namespace lithe
