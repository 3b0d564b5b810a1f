// A library to load before a program (LD_PRELOAD), which then sees a processor without AVX-512 and AMX, and without
// AVX-VNNI unless HOLD_CPU is avxvnni. Programs ask the processor by the instruction CPUID. Linux lets a thread and
// those that it starts fault at it, where processor and hypervisor can (/proc/cpuinfo: cpuid_fault); the handler
// answers. What a compiler has fixed before, as in llama.cpp, is not held. settings.sh builds and uses it.
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

constexpr long kSetCpuid = 0x1012;  // ARCH_SET_CPUID, which older headers lack
bool keeps_vnni = false;
struct sigaction others;

long allow_cpuid(long allowed) { return syscall(SYS_arch_prctl, kSetCpuid, allowed); }

constexpr uint32_t without(uint32_t word, std::initializer_list<int> bits) {
  for (const int bit : bits) word &= ~(uint32_t(1) << bit);
  return word;
}

// Intel's manual, volume 2A, CPUID, leaf 7: all that needs AVX-512 or AMX.
void hide(uint32_t sub_leaf, uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  if (sub_leaf == 0) {
    b = without(b, {16, 17, 21, 26, 27, 28, 30, 31});  // F, DQ, IFMA, PF, ER, CD, BW, VL
    c = without(c, {1, 6, 11, 12, 14});                // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
    d = without(d, {2, 3, 8, 22, 23, 24, 25});         // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX and AVX-512's FP16
  } else if (sub_leaf == 1) {
    a = without(a, {5, 21});                                               // AVX-512's BF16, AMX's FP16
    if (!keeps_vnni) a = without(a, {4, 23}), d = without(d, {4, 5, 10});  // AVX-VNNI with its INT8, INT16; AVX-IFMA
  }
}

void on_fault(int number, siginfo_t* info, void* context) {
  auto* r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* at = reinterpret_cast<const unsigned char*>(r[REG_RIP]);
  if (info->si_code != SI_KERNEL || at[0] != 0x0f || at[1] != 0xa2) {
    if (others.sa_flags & SA_SIGINFO) return others.sa_sigaction(number, info, context);
    signal(number, SIG_DFL);
    return;
  }
  const auto leaf = uint32_t(r[REG_RAX]), sub_leaf = uint32_t(r[REG_RCX]);
  uint32_t a = 0, b = 0, c = 0, d = 0;
  allow_cpuid(1);
  __cpuid_count(leaf, sub_leaf, a, b, c, d);
  allow_cpuid(0);
  if (leaf == 7) hide(sub_leaf, a, b, c, d);
  r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d;
  r[REG_RIP] += 2;
}

[[gnu::constructor]] void hold() {
  const char* set = std::getenv("HOLD_CPU");
  keeps_vnni = set && !std::strcmp(set, "avxvnni");
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &others);
  if (allow_cpuid(0)) std::perror("hold_cpu: this machine lets no program fault at CPUID"), _exit(3);
}

}  // namespace
