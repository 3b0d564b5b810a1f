// What this program was built as and what it runs on.
#pragma once

#include <cstdint>
#include <string>

namespace lithe {

struct BuildInfo {
  std::string version, commit, compiler, build_type;
};
/// The commit is that of the source tree when it was configured, "unknown" outside a repository.
const BuildInfo& build_info();

struct Machine {
  std::string cpu;           // model name
  int logical_cpus = 0;      // of the machine
  int64_t memory = 0;        // bytes
  int64_t memory_limit = 0;  // of the cgroup, 0: none
  std::string huge_pages;    // the kernel's setting for transparent huge pages
};
Machine machine();

/// Bytes of the first processor's cache of this level, 0 where the system does not say.
int64_t cache_bytes(int level);
/// The same of its last cache; 32 MiB where the system does not say.
int64_t last_cache_bytes();

/// Bytes that this process can still take before the kernel kills one: what the machine has available, or what is left
/// in the cgroup below its limit, without what the kernel can drop. 0 where the system does not say.
int64_t memory_left();

/// The largest resident set of this process so far, in bytes.
int64_t peak_resident_bytes();

}  // namespace lithe
