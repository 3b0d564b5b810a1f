#include "lithe/kernels/tile_support.h"

#include "lithe/kernels/kernel.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lithe::kernels {

bool processor_has_tiles() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTileFeatures = 1u << 22 | 1u << 24 | 1u << 25;  // AMX-BF16, AMX-TILE, AMX-INT8
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kTileFeatures) != kTileFeatures) return false;
  constexpr unsigned kOsxsave = 1u << 27, kTileState = 1u << 17 | 1u << 18;  // XTILECFG, XTILEDATA
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kOsxsave)) return false;
  unsigned state = 0, high = 0;
  __asm__("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
  if ((state & kTileState) != kTileState) return false;
  // Palette 1: at least 8 tiles of 16 rows of 64 bytes.
  return __get_cpuid_count(0x1d, 0, &a, &b, &c, &d) && a >= 1 && __get_cpuid_count(0x1d, 1, &a, &b, &c, &d) &&
         (b & 0xffff) >= 64 && b >> 16 >= 8 && (c & 0xffff) >= 16;
#else
  return false;
#endif
}

bool tiles_can_run() { return can_run(Isa::amx) || can_run(Isa::amx_emulated); }

#ifdef LITHE_HAVE_amx
namespace cpu::amx {
double tile_rounds_bf16(int64_t rounds);
double tile_rounds_int8(int64_t rounds);
}  // namespace cpu::amx
#endif

TilePeak tile_peak() {
#ifdef LITHE_HAVE_amx
  if (machine_isa() == Isa::amx) return {cpu::amx::tile_rounds_bf16, cpu::amx::tile_rounds_int8};
#endif
  return {nullptr, nullptr};
}

}  // namespace lithe::kernels
