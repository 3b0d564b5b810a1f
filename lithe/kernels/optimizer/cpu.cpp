#include "lithe/kernels/optimizer/optimizer.h"

#include "lithe/kernels/cpu/bytes.h"
#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"
#include "lithe/kernels/optimizer/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

// What one step does to the numbers of one place.
struct Update {
  explicit Update(const AdamWArgs& a)
      : beta1(float(a.beta1)),
        rest1(float(1 - a.beta1)),
        beta2(float(a.beta2)),
        rest2(float(1 - a.beta2)),
        unbias1(float(1 / (1 - __builtin_pow(a.beta1, double(a.step))))),
        unbias2(float(1 / (1 - __builtin_pow(a.beta2, double(a.step))))),
        lr(float(a.lr)),
        eps(float(a.eps)),
        decay(float(a.weight_decay)),
        gradient_scale(float(a.gradient_scale)) {}
  [[gnu::always_inline]] void operator()(Vec gradient, Vec& p, Vec& mean, Vec& square) const {
    const Vec g = gradient * gradient_scale;
    mean = mean * beta1 + g * rest1;
    square = square * beta2 + (g * rest2) * g;
    p -= lr * (mean * unbias1 / (sqrt(square * unbias2) + eps) + decay * p);
  }
  float beta1, rest1, beta2, rest2, unbias1, unbias2, lr, eps, decay, gradient_scale;
};

// Where the weights stand: in f32, perhaps with a copy in bf16, or split into halves.
template <bool has_shadow>
struct WideWeights {
  explicit WideWeights(const AdamWArgs& a)
      : param(pointer<float>(a.param)), shadow(has_shadow ? written<bf16>(a.shadow) : Written<bf16>{}) {}
  template <class Lanes>
  [[gnu::always_inline]] Vec read(int64_t i, Lanes lanes) const {
    return load(param + i, lanes);
  }
  template <class Lanes>
  [[gnu::always_inline]] void write(int64_t i, Vec p, Lanes lanes) const {
    store(param + i, p, lanes);
    if constexpr (has_shadow) shadow(i, p, lanes);
  }
  float* param;
  Written<bf16> shadow;
};

typedef int16_t ShortVec __attribute__((vector_size(2 * kLanes)));

[[gnu::always_inline]] inline int count_of(All) { return kLanes; }
[[gnu::always_inline]] inline int count_of(First f) { return f.count; }

struct SplitWeights {
  explicit SplitWeights(const AdamWArgs& a) : high(pointer<int16_t>(a.param)), rest(pointer<int16_t>(a.rest)) {}
  template <class Lanes>
  [[gnu::always_inline]] Vec read(int64_t i, Lanes lanes) const {
    const IntVec upper = __builtin_convertvector(halves(high + i, lanes), IntVec),
                 lower = __builtin_convertvector(halves(rest + i, lanes), IntVec);
    return as_floats((upper << 16) + lower);
  }
  template <class Lanes>
  [[gnu::always_inline]] void write(int64_t i, Vec p, Lanes lanes) const {
    const IntVec bits = as_ints(p);
    const ShortVec upper = __builtin_convertvector((bits + 0x8000) >> 16, ShortVec),
                   lower = __builtin_convertvector(bits, ShortVec);
    __builtin_memcpy(high + i, &upper, 2 * size_t(count_of(lanes)));
    __builtin_memcpy(rest + i, &lower, 2 * size_t(count_of(lanes)));
  }
  template <class Lanes>
  [[gnu::always_inline]] static ShortVec halves(const int16_t* from, Lanes lanes) {
    ShortVec out{};
    __builtin_memcpy(&out, from, 2 * size_t(count_of(lanes)));
    return out;
  }
  int16_t *high, *rest;
};

template <class Weights, bool clear>
void adamw_of(const AdamWArgs& a) {
  float *gradient = pointer<float>(a.gradient), *m = pointer<float>(a.m), *v = pointer<float>(a.v);
  const Weights weights(a);
  const Update update(a);
  parallel_elements(a.param.numel(), 7 * sizeof(float), [=](int64_t begin, int64_t count) {
    each(count, [=](int64_t at, auto lanes) {
      const int64_t i = begin + at;
      Vec p = weights.read(i, lanes), mean = load(m + i, lanes), square = load(v + i, lanes);
      update(load(gradient + i, lanes), p, mean, square);
      store(m + i, mean, lanes);
      store(v + i, square, lanes);
      weights.write(i, p, lanes);
      if constexpr (clear) store(gradient + i, Vec{}, lanes);
    });
  });
}

// The codes of reference.h. In decade k of the last bit a code reads value = slope f + start, where f in [1, 2) is the
// code's own mantissa; a number x between the middles of the decades around takes the code nearest to by x + from.
template <int bits>
struct StateCode {
  alignas(64) float slope[16] = {}, start[16] = {}, by[16] = {}, from[16] = {}, last[16] = {};
  float above[bits] = {};  // the middle below decade k > 0
  constexpr StateCode() {
    double end = 1, codes = 1 << (bits - 1);
    for (int k = bits - 1; k >= 0; --k, end /= 10, codes /= 2) {
      slope[k] = float(0.9 * end);
      start[k] = float(end * (0.9 / codes - 0.8));
      by[k] = float(k ? codes / (0.9 * end) : 1 / end);
      from[k] = float(k ? codes - 1 - codes / 9 : 0);
      last[k] = float(2 * codes - 1);
      above[k] = float(end * (0.1 + 0.45 / codes));
    }
  }
};
template <int bits>
constexpr StateCode<bits> kStateCode{};

// Entry k, 0 <= k < 8.
[[gnu::always_inline]] inline Vec entry_of(const float* table, IntVec k) {
  if constexpr (kLanes >= 8)
    return shuffled(load(table), k);
  else
    return shuffled(load(table), load(table + kLanes), k);
}

// The value of whole numbers >= 0.
template <int bits>
[[gnu::always_inline]] inline Vec state_value(Vec code) {
  const StateCode<bits>& table = kStateCode<bits>;
  const IntVec parts = as_ints(code), k = ((parts >> 23) - 127) & 7;
  const Vec mantissa = as_floats((parts & 0x7fffff) | 0x3f800000);
  return code > 0.0f ? entry_of(table.slope, k) * mantissa + entry_of(table.start, k) : Vec{};
}
// The code of numbers in [0, 1], before it is rounded.
template <int bits>
[[gnu::always_inline]] inline Vec state_code(Vec x) {
  const StateCode<bits>& table = kStateCode<bits>;
  IntVec k{};
#pragma GCC unroll 8
  for (int i = 1; i < bits; ++i) k -= x > table.above[i];
  return min(x * entry_of(table.by, k) + entry_of(table.from, k), entry_of(table.last, k));
}
[[gnu::always_inline]] inline Vec with_sign(Vec x, Vec of) {
  return as_floats(as_ints(x) | (as_ints(of) & int32_t(0x80000000)));
}

// What numbers are multiplied by to be at most 1. So small a largest one has no inverse.
[[gnu::always_inline]] inline float over(float largest) { return largest >= 0x1p-126f ? 1 / largest : 0; }

template <class Weights, bool clear>
void adamw_coded(const AdamWArgs& a) {
  float *gradient = pointer<float>(a.gradient), *m_scale = pointer<float>(a.m_scale),
        *v_scale = pointer<float>(a.v_scale);
  int8_t *m = pointer<int8_t>(a.m), *v = pointer<int8_t>(a.v);  // v: codes above 127 are read as negative
  const Weights weights(a);
  const Update update(a);
  parallel_elements(a.param.numel(), 4 * sizeof(float), [=](int64_t first, int64_t count) {
    for (int64_t begin = first; begin < first + count; begin += kStateBlock) {
      const int64_t n = first + count - begin < kStateBlock ? first + count - begin : kStateBlock;
      const float m_unit = m_scale[begin / kStateBlock], v_unit = v_scale[begin / kStateBlock];
      alignas(64) float means[kStateBlock], squares[kStateBlock];
      Vec m_largest{}, v_largest{};
      each(n, [&](int64_t at, auto lanes) {
        const int64_t i = begin + at;
        const Vec m_code = load(m + i, lanes), v_code = load(v + i, lanes);
        Vec mean = with_sign(state_value<7>(abs(m_code)), m_code) * m_unit,
            square = state_value<8>(v_code < 0.0f ? v_code + 256.0f : v_code) * v_unit, p = weights.read(i, lanes);
        update(load(gradient + i, lanes), p, mean, square);
        m_largest = max(m_largest, keep(abs(mean), lanes));
        v_largest = max(v_largest, keep(square, lanes));
        store(means + at, mean);
        store(squares + at, square);
        weights.write(i, p, lanes);
        if constexpr (clear) store(gradient + i, Vec{}, lanes);
      });
      const float m_max = max(m_largest), v_max = max(v_largest), m_over = over(m_max), v_over = over(v_max);
      m_scale[begin / kStateBlock] = m_max;
      v_scale[begin / kStateBlock] = v_max;
      for (int64_t at = 0; at < n; at += kLanes) {
        const Vec mean = load(means + at), square = load(squares + at), v_code = state_code<8>(square * v_over);
        const int lanes = int(n - at < kLanes ? n - at : kLanes);
        store_rounded(m + begin + at, with_sign(state_code<7>(abs(mean) * m_over), mean), lanes);
        store_rounded(v + begin + at, square > 0.0f ? max(v_code, splat(1.0f)) : v_code, lanes);
      }
    }
  });
}

template <class Weights>
void adamw_by(const AdamWArgs& a) {
  by_flag(a.clear, [&]<bool clear>() {
    if (a.m_scale.defined())
      adamw_coded<Weights, clear>(a);
    else
      adamw_of<Weights, clear>(a);
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
  if (a.rest.defined()) return adamw_by<SplitWeights>(a);
  by_flag(a.shadow.defined(), [&]<bool has_shadow>() { adamw_by<WideWeights<has_shadow>>(a); });
}

void sum_of_squares(const SquaresTask& task) {
  by_type(task.x.dtype(), [&]<class T>() { sum_of_squares_of<T>(task); });
}

void all_finite(const FiniteTask& task) {
  by_type(task.x.dtype(), [&]<class T>() { all_finite_of<T>(task); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
