// The most that tiles do: multiplications one after the other on registers, into sums of their own.
#include "lithe/kernels/cpu/tile.h"

namespace lithe::kernels::cpu::LITHE_ISA {

double tile_rounds_bf16(int64_t rounds) {
  const tile::Session session;
  for (int64_t i = 0; i < rounds; ++i) {
    tile::dot_bf16<0, 4, 6>();
    tile::dot_bf16<1, 4, 7>();
    tile::dot_bf16<2, 5, 6>();
    tile::dot_bf16<3, 5, 7>();
  }
  return double(rounds) * 4 * 2 * 16 * 16 * 32;
}

double tile_rounds_int8(int64_t rounds) {
  const tile::Session session;
  for (int64_t i = 0; i < rounds; ++i) {
    tile::dot_i8_u8<0, 4, 6>();
    tile::dot_i8_u8<1, 4, 7>();
    tile::dot_i8_u8<2, 5, 6>();
    tile::dot_i8_u8<3, 5, 7>();
  }
  return double(rounds) * 4 * 2 * 16 * 16 * 64;
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
