// Keys that turn by their positions as they are read [KeyTurn]. The angle of a position is that of the first key of its
// tile plus one of a table, so that sines are computed once a tile.
#pragma once

#include "lithe/kernels/attention/cpu_tiles.h"
#include "lithe/kernels/rope/cpu_pairs.h"

namespace lithe::kernels::cpu::LITHE_ISA {

/// A row of angles.
struct Angles {
  float *sines, *cosines;
  [[gnu::always_inline]] Angles(float* at, int64_t row) : sines(at), cosines(at + row) {}

  [[gnu::always_inline]] void set(const AttentionCall& call, double position) const {
    angles_of(position, call.turn.frequencies, call.turn.pairs, sines, cosines);
    if (call.turn.interleaved) one_angle_a_lane(call.turn.pairs, sines, cosines);
  }
};

/// Keys of one tile of a span, which turn into rows of f32.
class TurningKeys {
 public:
  /// The table, once a part: rows [0, kKeyTile) of angles, behind which lie two rows more.
  static void prepare(const AttentionCall& call, float* space) {
    const int64_t row = call.turn.row();
    for (int64_t j = 0; j < kKeyTile; ++j) Angles(space + call.space.turn + 2 * row * j, row).set(call, double(j));
  }
  /// The tile begins at `key`, a multiple of kKeyTile or the first that is seen.
  TurningKeys(const AttentionCall& call, const AttentionSpan& span, int64_t key, float* space)
      : call_(call),
        row_(call.turn.row()),
        table_(space + call.space.turn),
        first_(table_ + 2 * row_ * kKeyTile, row_),
        now_(table_ + 2 * row_ * (kKeyTile + 1), row_) {
    first_.set(call, double(span.key_position + key));
  }
  /// Key j of the tile: `heads` heads of it, `size` numbers apart in `to`, times their scales where they are i8.
  template <class T>
  [[gnu::always_inline]] void read(const T* k, const float* scales, int64_t heads, int64_t j, float* to,
                                   int64_t size) const {
    const float *s = table_ + 2 * row_ * j, *c = s + row_;
    for (int64_t i = 0; i < row_; i += kLanes) {
      const Vec s0 = load(first_.sines + i), c0 = load(first_.cosines + i), s1 = load(s + i), c1 = load(c + i);
      store(now_.sines + i, s0 * c1 + c0 * s1);
      store(now_.cosines + i, c0 * c1 - s0 * s1);
    }
    for (int64_t head = 0; head < heads; ++head, k += call_.head_dim, to += size) {
      const Vec scale = splat(sizeof(T) == 1 ? scales[head] : 1.0f);
      const auto put = [&](int64_t i, Vec v, auto lanes) __attribute__((always_inline)) {
        if constexpr (sizeof(T) == 1) v *= scale;
        store(to + i, v, lanes);
      };
      const int64_t pairs = call_.turn.pairs;
      if (call_.turn.interleaved)
        turn_pairs<true>(k, pairs, pairs, now_.sines, now_.cosines, put);
      else
        turn_pairs<false>(k, pairs, pairs, now_.sines, now_.cosines, put);
      const int64_t rest = 2 * pairs;
      each(
          call_.head_dim - rest, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
            put(rest + i, load(k + rest + i, lanes), lanes);
          });
    }
  }

 private:
  const AttentionCall& call_;
  int64_t row_;
  float* table_;
  Angles first_, now_;  // of the tile's first key, of the key that is read
};

}  // namespace lithe::kernels::cpu::LITHE_ISA
