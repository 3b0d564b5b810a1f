#include "lithe/cli/launcher_options.h"

#include "lithe/base/error.h"
#include "lithe/cli/train_report.h"

namespace lithe {

void add_launcher_options(CommandLine& app, compare::Launcher& launcher) {
  app.add_option("-j,--jobs", launcher.jobs,
                 "number of runs to train at the same time, each in a process with --threads threads; the results are "
                 "the same as with one run after another")
      .between(1, 1024);
  app.add_option("--launcher", launcher.type,
                 "program that starts these processes. local: lithe itself, on this machine; slurm: srun, inside a job "
                 "or outside; mpi: mpirun")
      .one_of({"local", "slurm", "mpi"});
  app.add_option("--hosts", launcher.hosts, "with --launcher mpi: the machines, used in turn (repeatable)")
      .repeatable();
}

void check_launcher(const char* command, const compare::Launcher& launcher, const std::string& only) {
  check_usage(launcher.hosts.empty() || launcher.type == "mpi", command, "--hosts is for --launcher mpi");
  check_usage(launcher.alone() || only.empty(), command, "-j and --launcher start all runs, and --only one (", only,
              "); leave one of them out");
  compare::check_program(command, launcher);
}

std::string launcher_words(const compare::Launcher& launcher) {
  std::string out;
  if (launcher.type != "local") out += " --launcher " + launcher.type;
  for (const std::string& host : launcher.hosts) out += " --hosts " + shell_word(host);
  if (launcher.jobs > 1) out += cat(" -j ", launcher.jobs);
  return out;
}

}  // namespace lithe
