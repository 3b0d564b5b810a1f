// What other folders ask about matrix tiles.
#pragma once

#include <cstdint>

namespace lithe::kernels {

/// The processor has tiles for bf16 and bytes and the system saves them, whether or not this program may use them.
bool processor_has_tiles();

/// Kernels on tiles may run, on real ones or emulated.
bool tiles_can_run();

/// Multiplications of tiles on registers: each makes `rounds` rounds and returns how many operations that was (a
/// multiply-add is 2). Null where machine_isa() is not amx.
struct TilePeak {
  double (*bf16)(int64_t rounds);
  double (*int8)(int64_t rounds);
};
TilePeak tile_peak();

}  // namespace lithe::kernels
