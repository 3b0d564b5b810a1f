#include "lithe/kernels/kernel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(LITHE_HAVE_amx) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "lithe/base/log.h"
#include "lithe/kernels/tile_support.h"

namespace lithe::kernels {
namespace {

#ifdef LITHE_HAVE_amx
// Linux gives the state of tiles, 8 KiB a thread, only to processes that ask for it; all their threads then have it.
bool may_use_tiles() {
#ifdef __linux__
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}
#endif

// AVX-VNNI, which processors with AVX-512 may lack.
bool has_byte_products() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  static const bool has = __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 4;
  return has;
#else
  return false;
#endif
}

// Without tiles.
Isa best_vectors() {
  Isa best = Isa::generic;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    best = has_byte_products() ? Isa::avxvnni : Isa::avx2;
  if (best >= Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    best = Isa::avx512;
  if (best == Isa::avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"))
    best = Isa::avx512bf16;
#endif
  return best;
}

// What LITHE_ISA allows.
Isa wanted_isa() {
  const char* wanted = std::getenv("LITHE_ISA");
  if (!wanted) return Isa::amx;
#if defined(__aarch64__)
  if (!std::strcmp(wanted, name_of(Isa::generic)) || !std::strcmp(wanted, "generic")) return Isa::generic;
  fail_usage("LITHE_ISA", "must be neon (or generic, the same) on Arm, got '", wanted, "'");
#else
  for (Isa isa : {Isa::generic, Isa::avx2, Isa::avxvnni, Isa::avx512, Isa::avx512bf16, Isa::amx, Isa::amx_emulated})
    if (!std::strcmp(wanted, name_of(isa))) return isa;
  fail_usage("LITHE_ISA", "must be generic, avx2, avxvnni, avx512, avx512bf16, amx or amx-emulated, got '", wanted,
             "'");
#endif
}

struct Sets {
  Isa wanted = wanted_isa(), machine = best_vectors();
  Isa usable;

  Sets() {
#ifdef LITHE_HAVE_amx
    if (wanted == Isa::amx && machine == Isa::avx512bf16 && processor_has_tiles() && may_use_tiles())
      machine = Isa::amx;
#endif
    limit(wanted);
  }
  void limit(Isa isa) {
#ifdef LITHE_HAVE_amx_emulated
    if (isa == Isa::amx_emulated) {
      usable = isa;
      return;
    }
#endif
    usable = std::min({isa, wanted, machine});
    if (usable == Isa::avxvnni && !has_byte_products()) usable = Isa::avx2;
  }
};

Sets& sets() {
  static Sets made;
  return made;
}

bool& reference_flag() {
  static bool on = [] {
    const char* wanted = std::getenv("LITHE_KERNEL");
    if (!wanted || !*wanted) return false;
    check_usage(!std::strcmp(wanted, "ref"), "LITHE_KERNEL", "must be ref, got '", wanted, "'");
    return true;
  }();
  return on;
}

thread_local CostMeter* meter = nullptr;
thread_local std::string part;
thread_local int wholes = 0;  // scopes around that keep their name

// Where the entries of a living meter stand: a model of a thousand layers has tens of thousands.
struct Places {
  std::map<std::pair<std::string, std::string>, size_t> entries;  // by part and kernel
  std::map<std::string, size_t> kept;                             // by part
};
thread_local std::map<const CostMeter*, Places> places;

}  // namespace

const char* name_of(Isa isa) {
#if defined(__aarch64__)
  static const char* names[] = {"neon",       "avx2", "avxvnni",     "avx512",
                                "avx512bf16", "amx",  "amx-emulated"};  // the first alone
#else
  static const char* names[] = {"generic", "avx2", "avxvnni", "avx512", "avx512bf16", "amx", "amx-emulated"};
#endif
  return names[int(isa)];
}

Isa usable_isa() { return sets().usable; }
Isa machine_isa() {
  const Sets& s = sets();
  return s.usable == Isa::amx_emulated ? std::min(s.machine, Isa::avx512bf16) : s.usable;
}
bool can_run(Isa isa) {
  if (isa == Isa::amx_emulated) return usable_isa() == isa;
  return isa <= machine_isa() && (isa != Isa::avxvnni || has_byte_products());
}

const std::vector<Isa>& built_isas() {
  static const std::vector<Isa> built = {
#ifdef LITHE_HAVE_amx
      Isa::amx,
#endif
#ifdef LITHE_HAVE_avx512bf16
      Isa::avx512bf16,
#endif
#ifdef LITHE_HAVE_avx512
      Isa::avx512,
#endif
#ifdef LITHE_HAVE_avxvnni
      Isa::avxvnni,
#endif
#ifdef LITHE_HAVE_avx2
      Isa::avx2,
#endif
#ifdef LITHE_HAVE_generic
      Isa::generic,
#endif
  };
  return built;
}

void limit_isa(Isa isa) { sets().limit(isa); }
void assume_isa(Isa isa) { sets().machine = sets().wanted = isa; }
bool reference_only() { return reference_flag(); }
void force_reference(bool on) { reference_flag() = on; }

CostMeter::CostMeter() : previous_(meter), activations_(ledger(Device::meta).current(MemoryClass::activations)) {
  meter = this;
}
CostMeter::~CostMeter() {
  meter = previous_;
  places.erase(this);
}

Cost CostMeter::total() const {
  Cost sum;
  for (const Entry& e : entries_) sum += e.cost;
  return sum;
}

const std::vector<CostMeter::Kept>& CostMeter::kept() {
  book_kept();
  return kept_;
}

void CostMeter::book_kept() {
  const int64_t now = ledger(Device::meta).current(MemoryClass::activations), bytes = now - activations_;
  activations_ = now;
  if (!bytes) return;
  const auto [at, added] = places[this].kept.try_emplace(part, kept_.size());
  if (added) kept_.push_back({part, 0});
  kept_[at->second].bytes += bytes;
}

void book_cost(const char* kernel, const Cost& cost) {
  if (!meter) return;
  const auto [at, added] = places[meter].entries.try_emplace({part, kernel}, meter->entries_.size());
  if (added) meter->entries_.push_back({part, kernel, {}, 0});
  CostMeter::Entry& entry = meter->entries_[at->second];
  entry.cost += cost;
  ++entry.calls;
}

PartScope::PartScope(std::string name, bool whole) : previous_(part), whole_(whole) {
  if (meter) meter->book_kept();
  if (!wholes) part = std::move(name);
  wholes += whole_;
}
PartScope::~PartScope() {
  if (meter) meter->book_kept();
  wholes -= whole_;
  part = std::move(previous_);
}
const std::string& PartScope::current() { return part; }

bool tracing_dispatch() {
  static const bool on = verbose("dispatch");
  return on;
}

void report_dispatch(const char* family, const char* implementation, const char* reason) {
  if (reason)
    log_info("dispatch ", family, ": ", implementation, " refused: ", reason);
  else
    log_info("dispatch ", family, ": ", implementation, " runs");
}

}  // namespace lithe::kernels
