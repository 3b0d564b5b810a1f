// The innermost loops of the ceilings, in the widest vectors, or on the tiles, that the kernels may use
// (kernels::machine_isa()).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lithe::bench {

/// Loops of one instruction set. The arithmetic ones make `rounds` rounds of independent multiply-adds on registers and
/// return how many operations that was; null where there is no such instruction.
struct Vectors {
  double (*f32)(int64_t rounds);
  double (*bf16)(int64_t rounds);
  double (*int8)(int64_t rounds);
  /// Reads `bytes`, a multiple of 1024, 64-byte aligned; the result depends on all of them.
  int64_t (*read)(const void* from, size_t bytes);
  /// Copies `bytes`, a multiple of 1024, 64-byte aligned, without reading what it overwrites where that can be done.
  void (*copy)(const void* from, void* to, size_t bytes);
};
const Vectors& vectors();

}  // namespace lithe::bench
