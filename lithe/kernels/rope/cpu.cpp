// The sines and cosines of a row's position are made once and serve all its heads.
#include "lithe/kernels/rope/rope.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/written.h"
#include "lithe/kernels/rope/cpu.h"
#include "lithe/kernels/rope/cpu_pairs.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kPairs = 256;  // pairs whose angles are kept at a time; a multiple of kLanes

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
        if constexpr (interleaved) one_angle_a_lane(count, sines, cosines);
        for (int64_t head = n * C; head < (n + 1) * C; head += head_dim) {
          const int64_t at = head + (interleaved ? 2 * first : first);
          turn_pairs<interleaved>(
              x + at, count, half, sines, cosines, [&](int64_t c, Vec v, auto lanes) __attribute__((always_inline)) {
                put<accumulate>(out, at + c, v, lanes);
              });
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
