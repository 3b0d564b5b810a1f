// The sines and cosines of a row's position are made once and serve all its heads.
#include "lithe/kernels/rope/rope.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"
#include "lithe/kernels/rope/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kPairs = 256;  // pairs whose angles are kept at a time; a multiple of kLanes

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

template <class T, bool interleaved, bool accumulate>
void rope_of(const RopeTask& task) {
  const RopeArgs& a = task.args;
  const int64_t rows = rows_of(a.x), C = cols_of(a.x), head_dim = a.head_dim,
                turned = a.rotary_dim ? a.rotary_dim : head_dim, half = turned / 2;
  const T* x = pointer<T>(a.x);
  // Both halves of a head start at a vector.
  const Written<T> out = written<T>(a.out, turned == head_dim || head_dim % kLanes == 0 ? half : 1);
  const int32_t* positions = pointer<int32_t>(a.positions);
  const double* frequencies = task.frequencies;
  const double direction = a.inverse ? -1 : 1;
  parallel(rows, grain_of_rows(2 * C * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    alignas(64) float sines[2 * kPairs], cosines[2 * kPairs];
    for (int64_t n = begin; n < end; ++n)
      for (int64_t first = 0; first < half; first += kPairs) {
        const int64_t count = half - first < kPairs ? half - first : kPairs;
        angles_of(direction * positions[n], frequencies + first, count, sines, cosines);
        if constexpr (interleaved) {
          // (u, v) -> (u cos - v sin, v cos + u sin): one factor a lane, the sine's sign alternating.
          for (int64_t c = count; c-- > 0;) {
            const float s = sines[c], k = cosines[c];
            sines[2 * c] = -s;
            sines[2 * c + 1] = s;
            cosines[2 * c] = cosines[2 * c + 1] = k;
          }
        }
        for (int64_t head = n * C; head < (n + 1) * C; head += head_dim) {
          if constexpr (interleaved) {
            const T* from = x + head + 2 * first;
            const int64_t to = head + 2 * first;
            each(2 * count, [&](int64_t c, auto lanes) {
              const Vec v = load(from + c, lanes);
              put<accumulate>(out, to + c, v * load(cosines + c) + swap_pairs(v) * load(sines + c), lanes);
            });
          } else {
            const T* from = x + head + first;
            const int64_t to = head + first;
            each(count, [&](int64_t c, auto lanes) {
              const Vec u = load(from + c, lanes), v = load(from + half + c, lanes), s = load(sines + c),
                        k = load(cosines + c);
              put<accumulate>(out, to + c, u * k - v * s, lanes);
              put<accumulate>(out, to + half + c, u * s + v * k, lanes);
            });
          }
        }
      }
    if (turned < head_dim && (accumulate || x != out.data))
      for (int64_t head = begin * C; head < end * C; head += head_dim)
        each(head_dim - turned, [&](int64_t c, auto lanes) {
          put<accumulate>(out, head + turned + c, load(x + head + turned + c, lanes), lanes);
        });
  });
}

}  // namespace

void rope(const RopeTask& task) {
  by_type(task.args.x.dtype(), [&]<class T>() {
    by_flag(task.args.interleaved, [&]<bool interleaved>() {
      by_flag(task.args.accumulate, [&]<bool accumulate>() { rope_of<T, interleaved, accumulate>(task); });
    });
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
