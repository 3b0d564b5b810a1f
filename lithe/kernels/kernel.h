// A kernel family is an argument struct, a cost, and an ordered list of implementations that ends in
// the reference (<family>/reference.h, the specification). The first that does not refuse runs.
//   LITHE_KERNEL=ref         runs the reference everywhere
//   LITHE_ISA=avx2           runs at most this instruction set (generic, avx2, avxvnni, avx512, avx512bf16, amx);
//                            amx-emulated: for tests, the kernels of amx on emulated tiles
//   LITHE_VERBOSE=dispatch   says which implementation ran, and why those before it refused
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "lithe/tensor/tensor.h"

namespace lithe::kernels {

/// Instruction sets, each including the ones before it, except that those after avxvnni need not have it. avxvnni: avx2
/// and products of bytes; families without a form for it run that of avx2. amx: matrix tiles of bf16 and of 8-bit
/// integers; families without a form for it run that of avx512bf16. amx_emulated: the best that this machine has
/// without tiles, and the kernels of amx on tiles that are emulated. It is for tests, slow, runs anywhere, and is never
/// chosen by itself.
enum class Isa { generic, avx2, avxvnni, avx512, avx512bf16, amx, amx_emulated };
const char* name_of(Isa isa);
/// The best set that this machine has and LITHE_ISA allows, or amx_emulated where that is asked for.
Isa usable_isa();
/// The set whose instructions may run: usable_isa(), or the best without tiles beside amx_emulated.
Isa machine_isa();
/// Whether kernels that need `isa` may run.
bool can_run(Isa isa);
/// The sets that the vector kernels are built for, best first, without amx_emulated.
const std::vector<Isa>& built_isas();
/// For tests: at most `isa` from now on; amx_emulated on any machine.
void limit_isa(Isa isa);
/// For tests that catch its instructions: as if the machine had `isa`.
void assume_isa(Isa isa);
/// True when LITHE_KERNEL=ref or force_reference(true).
bool reference_only();
void force_reference(bool on);

/// Work of one call, counted without running it. One multiply-add is 2 FLOPs.
struct Cost {
  double flops = 0, bytes = 0;  // bytes: each operand once
  Cost& operator+=(const Cost& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
};

/// Collects the cost of kernels run on meta tensors, by part. While one lives, it receives.
class CostMeter {
 public:
  struct Entry {
    std::string part, kernel;
    Cost cost;
    int64_t calls = 0;
  };
  /// Activations on the meta device: bytes that came into being, less those that went, while a part ran.
  struct Kept {
    std::string part;
    int64_t bytes = 0;
  };
  CostMeter();
  ~CostMeter();
  CostMeter(const CostMeter&) = delete;
  CostMeter& operator=(const CostMeter&) = delete;
  const std::vector<Entry>& entries() const { return entries_; }
  Cost total() const;
  /// Since this lives; the sum over parts is what is there now.
  const std::vector<Kept>& kept();

 private:
  friend void book_cost(const char* kernel, const Cost& cost);
  friend class PartScope;
  void book_kept();
  CostMeter* previous_;
  std::vector<Entry> entries_;
  std::vector<Kept> kept_;
  int64_t activations_;
};
void book_cost(const char* kernel, const Cost& cost);

/// Names the part ("layers.3.mixer.heads") whose work follows, in cost tables and in error traces. With `whole`, work
/// of the parts inside is booked under this name.
class PartScope {
 public:
  explicit PartScope(std::string name, bool whole = false);
  ~PartScope();
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;
  static const std::string& current();

 private:
  std::string previous_;
  bool whole_;
};

template <class Args>
struct Implementation {
  const char* name;
  Isa needs;                           // generic: runs everywhere
  const char* (*refuse)(const Args&);  // the reason why it cannot run, or null; null pointer: never refuses
  void (*run)(const Args&);            // null: the build has none for this instruction set
};

void report_dispatch(const char* family, const char* implementation, const char* reason);
bool tracing_dispatch();

/// Runs the first implementation that can. `meta` says that the tensors hold no data: then only the
/// cost is booked.
template <class Args>
void run_kernel(const char* family, bool meta, std::initializer_list<Implementation<Args>> list, const Args& args) {
  if (meta) {
    book_cost(family, cost(args));
    return;
  }
  const bool tracing = tracing_dispatch();
  const Implementation<Args>* last = list.end() - 1;
  for (const auto& candidate : list) {
    const char* reason = nullptr;
    if (reference_only() && &candidate != last)
      reason = "LITHE_KERNEL=ref";
    else if (!can_run(candidate.needs))
      reason = "instruction set not available";
    else if (!candidate.run)
      reason = "instruction set not built";
    else if (candidate.refuse)
      reason = candidate.refuse(args);
    if (tracing) report_dispatch(family, candidate.name, reason);
    if (reason) continue;
    candidate.run(args);
    return;
  }
  fail(family, "no implementation takes these arguments; LITHE_VERBOSE=dispatch says why");
}

}  // namespace lithe::kernels

// Declares `void name(const Args&)` in the namespace of every instruction set; <family>/cpu*.cpp, which
// is compiled once for each, defines it inside `namespace lithe::kernels::cpu::LITHE_ISA`. LITHE_CPU_LIST are its
// implementations, best first. LITHE_CPU_STREAMS are the same without avx512, for kernels that wait for memory: their
// sources are not compiled for it, and avx2 runs in its place. LITHE_CPU_BYTES are all, with avxvnni, for kernels whose
// work is products of bytes: no other sources are compiled for that set. LITHE_TILE_LIST are those on tiles, defined by
// <family>/tiles*.cpp and declared by LITHE_DECLARE_TILES. A set that the build leaves out (LITHE_INSTRUCTION_SETS) has
// an entry that does not run.
#define LITHE_DECLARE_IN(isa, name, Args) \
  namespace lithe::kernels::cpu::isa {    \
  void name(const Args&);                 \
  }
#define LITHE_DECLARE_CPU(name, Args)   \
  LITHE_DECLARE_IN(generic, name, Args) \
  LITHE_DECLARE_IN(avx2, name, Args)    \
  LITHE_DECLARE_IN(avxvnni, name, Args) \
  LITHE_DECLARE_IN(avx512, name, Args)  \
  LITHE_DECLARE_IN(avx512bf16, name, Args)
#define LITHE_DECLARE_TILES(name, Args) \
  LITHE_DECLARE_IN(amx, name, Args)     \
  LITHE_DECLARE_IN(amx_emulated, name, Args)
#ifdef LITHE_HAVE_generic
#define LITHE_IN_generic(name) cpu::generic::name
#else
#define LITHE_IN_generic(name) nullptr
#endif
#ifdef LITHE_HAVE_avx2
#define LITHE_IN_avx2(name) cpu::avx2::name
#else
#define LITHE_IN_avx2(name) nullptr
#endif
#ifdef LITHE_HAVE_avxvnni
#define LITHE_IN_avxvnni(name) cpu::avxvnni::name
#else
#define LITHE_IN_avxvnni(name) nullptr
#endif
#ifdef LITHE_HAVE_avx512
#define LITHE_IN_avx512(name) cpu::avx512::name
#else
#define LITHE_IN_avx512(name) nullptr
#endif
#ifdef LITHE_HAVE_avx512bf16
#define LITHE_IN_avx512bf16(name) cpu::avx512bf16::name
#else
#define LITHE_IN_avx512bf16(name) nullptr
#endif
#ifdef LITHE_HAVE_amx
#define LITHE_IN_amx(name) cpu::amx::name
#else
#define LITHE_IN_amx(name) nullptr
#endif
#ifdef LITHE_HAVE_amx_emulated
#define LITHE_IN_amx_emulated(name) cpu::amx_emulated::name
#else
#define LITHE_IN_amx_emulated(name) nullptr
#endif
#define LITHE_CPU_ENTRY(isa, name, refuse) \
  { "cpu/" #isa, Isa::isa, refuse, LITHE_IN_##isa(name) }
#define LITHE_CPU_LIST(name, refuse)                                                \
  LITHE_CPU_ENTRY(avx512bf16, name, refuse), LITHE_CPU_ENTRY(avx512, name, refuse), \
      LITHE_CPU_ENTRY(avx2, name, refuse), LITHE_CPU_ENTRY(generic, name, refuse)
#define LITHE_CPU_BYTES(name, refuse)                                               \
  LITHE_CPU_ENTRY(avx512bf16, name, refuse), LITHE_CPU_ENTRY(avx512, name, refuse), \
      LITHE_CPU_ENTRY(avxvnni, name, refuse), LITHE_CPU_ENTRY(avx2, name, refuse),  \
      LITHE_CPU_ENTRY(generic, name, refuse)
#define LITHE_CPU_STREAMS(name, refuse) \
  LITHE_CPU_ENTRY(avx512bf16, name, refuse), LITHE_CPU_ENTRY(avx2, name, refuse), LITHE_CPU_ENTRY(generic, name, refuse)
#define LITHE_TILE_LIST(name, refuse) LITHE_CPU_ENTRY(amx, name, refuse), LITHE_CPU_ENTRY(amx_emulated, name, refuse)
