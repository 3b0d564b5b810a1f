// Pairs of channels turned by angles, in vectors: of rows, and of keys that attention reads.
#pragma once

#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// sines[c], cosines[c] of position * frequencies[c] for c in [0, count). The angle is reduced in double,
/// so that large positions keep their accuracy.
[[gnu::always_inline]] inline void angles_of(double position, const double* frequencies, int64_t count, float* sines,
                                             float* cosines) {
  constexpr int kHalf = kLanes / 2;
  typedef int32_t HalfInts __attribute__((vector_size(2 * kLanes)));
  for (int64_t c = 0; c < count; c += kLanes) {
    float rest[kLanes];
    int32_t quarter[kLanes];
    for (int part = 0; part < 2; ++part) {
      DoubleVec f{};
      for (int i = 0; i < kHalf; ++i) f[i] = c + part * kHalf + i < count ? frequencies[c + part * kHalf + i] : 0;
      const DoubleVec angle = f * position;
      const DoubleVec magic = DoubleVec{} + 0x1.8p52;  // adding it rounds to an integer
      const DoubleVec turns = (angle * 0.63661977236758134308 + magic) - magic;
      const DoubleVec r = (angle - turns * 1.57079632679489655800) - turns * 6.123233995736766e-17;
      const HalfFloats r32 = __builtin_convertvector(r, HalfFloats);
      const HalfInts q = __builtin_convertvector(turns, HalfInts);
      __builtin_memcpy(rest + part * kHalf, &r32, sizeof r32);
      __builtin_memcpy(quarter + part * kHalf, &q, sizeof q);
    }
    IntVec q;
    __builtin_memcpy(&q, quarter, sizeof q);
    const Turn t = turn(load(rest), q);
    store(sines + c, t.sine);
    store(cosines + c, t.cosine);
  }
}

/// Neighbouring lanes exchanged.
[[gnu::always_inline]] inline Vec swap_pairs(Vec v) { return shuffled(v, lane_numbers() ^ 1); }

/// For neighbours that pair, (u, v) -> (u cos - v sin, v cos + u sin): one factor a lane, the sine's sign alternating.
/// Both arrays grow from `count` to 2 `count`.
[[gnu::always_inline]] inline void one_angle_a_lane(int64_t count, float* sines, float* cosines) {
  for (int64_t c = count; c-- > 0;) {
    const float s = sines[c], k = cosines[c];
    sines[2 * c] = -s;
    sines[2 * c + 1] = s;
    cosines[2 * c] = cosines[2 * c + 1] = k;
  }
}

/// put(c, turned numbers, lanes) of `count` pairs from x on: neighbours (with one_angle_a_lane), or c and c + half.
template <bool interleaved, class T, class Put>
[[gnu::always_inline]] inline void turn_pairs(const T* x, int64_t count, int64_t half, const float* sines,
                                              const float* cosines, Put put) {
  if constexpr (interleaved)
    each(
        2 * count, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
          const Vec v = load(x + c, lanes);
          put(c, v * load(cosines + c) + swap_pairs(v) * load(sines + c), lanes);
        });
  else
    each(
        count, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
          const Vec u = load(x + c, lanes), v = load(x + half + c, lanes), s = load(sines + c), k = load(cosines + c);
          put(c, u * k - v * s, lanes);
          put(half + c, u * s + v * k, lanes);
        });
}

}  // namespace
}  // namespace lithe::kernels::cpu::LITHE_ISA
