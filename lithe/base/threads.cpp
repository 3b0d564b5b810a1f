#include "lithe/base/threads.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "lithe/base/error.h"

namespace lithe {
namespace {

int cgroup_limit() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0)
    return std::max(1, int(std::ceil(std::atof(quota.c_str()) / period)));
  std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota_us = -1;
  if (q >> quota_us && p >> period && quota_us > 0 && period > 0) return std::max(1, int(std::ceil(quota_us / period)));
  return 1 << 20;
}

int& current() {
  static int n = usable_threads();
  return n;
}

}  // namespace

int usable_threads() {
  // Not sched_getaffinity: with OMP_PROC_BIND the runtime has tied this thread to one core by now. The runtime counted
  // the process's own affinity when it started.
  int n = std::min(omp_get_num_procs(), cgroup_limit());
  if (const char* wanted = std::getenv("OMP_NUM_THREADS"))
    if (const int w = std::atoi(wanted); w > 0) n = std::min(n, w);
  return std::max(n, 1);
}

int threads() { return current(); }

void set_threads(int n) {
  check_usage(n >= 1, "threads", "must be at least 1, got ", n);
  current() = n;
  omp_set_num_threads(n);
}

}  // namespace lithe
