// The most that tiles do: multiplications one after the other on registers, into sums of their own.
#include "lithe/kernels/cpu/tile_block.h"

namespace lithe::kernels::cpu::LITHE_ISA {

namespace {

template <class Kind>
void rounds_of(int64_t rounds) {
  const tile::Session session;
  for (int64_t i = 0; i < rounds; ++i) {
    Kind::template dot<0, 4, 6>();
    Kind::template dot<1, 4, 7>();
    Kind::template dot<2, 5, 6>();
    Kind::template dot<3, 5, 7>();
  }
}

}  // namespace

double tile_rounds_bf16(int64_t rounds) {
  rounds_of<tile::Bf16>(rounds);
  return double(rounds) * 4 * 2 * 16 * 16 * 32;
}

double tile_rounds_int8(int64_t rounds) {
  rounds_of<tile::Bytes>(rounds);
  return double(rounds) * 4 * 2 * 16 * 16 * 64;
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
