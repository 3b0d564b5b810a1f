#include "lithe/kernels/optimizer/optimizer.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"
#include "lithe/kernels/optimizer/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <bool has_shadow, bool clear>
void adamw_of(const AdamWArgs& a) {
  float *param = pointer<float>(a.param), *gradient = pointer<float>(a.gradient), *m = pointer<float>(a.m),
        *v = pointer<float>(a.v);
  const Written<bf16> shadow = has_shadow ? written<bf16>(a.shadow) : Written<bf16>{};
  const float beta1 = float(a.beta1), rest1 = float(1 - a.beta1), beta2 = float(a.beta2), rest2 = float(1 - a.beta2);
  const float unbias1 = float(1 / (1 - __builtin_pow(a.beta1, double(a.step)))),
              unbias2 = float(1 / (1 - __builtin_pow(a.beta2, double(a.step))));
  const float lr = float(a.lr), eps = float(a.eps), decay = float(a.weight_decay),
              gradient_scale = float(a.gradient_scale);
  parallel_elements(a.param.numel(), 7 * sizeof(float), [=](int64_t begin, int64_t count) {
    each(count, [=](int64_t at, auto lanes) {
      const int64_t i = begin + at;
      const Vec g = load(gradient + i, lanes) * gradient_scale;
      const Vec mean = load(m + i, lanes) * beta1 + g * rest1, square = load(v + i, lanes) * beta2 + (g * rest2) * g;
      Vec p = load(param + i, lanes);
      p -= lr * (mean * unbias1 / (sqrt(square * unbias2) + eps) + decay * p);
      store(m + i, mean, lanes);
      store(v + i, square, lanes);
      store(param + i, p, lanes);
      if constexpr (has_shadow) shadow(i, p, lanes);
      if constexpr (clear) store(gradient + i, Vec{}, lanes);
    });
  });
}

template <class T>
void sum_of_squares_of(const SquaresTask& task) {
  const int64_t n = task.x.numel();
  const T* x = pointer<T>(task.x);
  double* blocks = task.blocks;
  parallel((n + kSquaresBlock - 1) / kSquaresBlock, 1, [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kSquaresBlock, count = n - first < kSquaresBlock ? n - first : kSquaresBlock;
      DoubleVec low{}, high{};
      each(count, [&](int64_t at, auto lanes) {
        const Vec v = load(x + first + at, lanes);
        HalfFloats half[2];
        __builtin_memcpy(half, &v, sizeof v);
        const DoubleVec l = __builtin_convertvector(half[0], DoubleVec),
                        h = __builtin_convertvector(half[1], DoubleVec);
        low += l * l;
        high += h * h;
      });
      low += high;
      double total = 0;
      for (int i = 0; i < kLanes / 2; ++i) total += low[i];
      blocks[b] = total;
    }
  });
}

template <class T>
void all_finite_of(const FiniteTask& task) {
  const T* x = pointer<T>(task.x);
  bool* result = task.result;
  parallel_elements(task.x.numel(), sizeof(T), [=](int64_t begin, int64_t count) {
    IntVec found{};
    each(count,
         [&](int64_t at, auto lanes) { found |= (as_ints(load(x + begin + at, lanes)) & 0x7f800000) == 0x7f800000; });
    int32_t any = 0;
    for (int i = 0; i < kLanes; ++i) any |= found[i];
    if (any) __atomic_store_n(result, false, __ATOMIC_RELAXED);
  });
}

}  // namespace

void adamw(const AdamWArgs& a) {
  by_flag(a.shadow.defined(),
          [&]<bool has_shadow>() { by_flag(a.clear, [&]<bool clear>() { adamw_of<has_shadow, clear>(a); }); });
}

void sum_of_squares(const SquaresTask& task) {
  by_type(task.x.dtype(), [&]<class T>() { sum_of_squares_of<T>(task); });
}

void all_finite(const FiniteTask& task) {
  by_type(task.x.dtype(), [&]<class T>() { all_finite_of<T>(task); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
