// A row passes through f32 in the first cache: long strides first, reading the row in its own type; then blocks of
// contiguous vectors with the strides inside vectors, writing the result in its own type. See reference.h.
#include "lithe/kernels/hadamard/hadamard.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"
#include "lithe/kernels/hadamard/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int kRadix = kLanes == 16 ? 16 : 8;  // vectors in registers at once

// ---- butterflies: (a, b) -> (a + b, a - b)

template <int R, int stride = 1>
[[gnu::always_inline]] inline void across(Vec (&v)[R]) {
  if constexpr (stride < R) {
#pragma GCC unroll 16
    for (int i = 0; i < R / 2; ++i) {
      const int low = i / stride * 2 * stride + i % stride;
      const Vec a = v[low], b = v[low + stride];
      v[low] = a + b;
      v[low + stride] = a - b;
    }
    across<R, 2 * stride>(v);
  }
}

/// Between lanes i and i ^ stride of one vector.
[[gnu::always_inline]] inline Vec within(Vec v, int stride) {
  const IntVec lane = lane_numbers();
  const Vec sign = (lane & stride) != 0 ? splat(-1.0f) : splat(1.0f);
  return v * sign + shuffled(v, lane ^ stride);
}

template <int R, int stride = 1>
[[gnu::always_inline]] inline void inside(Vec (&v)[R]) {
  if constexpr (stride < kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) v[i] = within(v[i], stride);
    inside<R, 2 * stride>(v);
  }
}

// ---- products with the base matrix

constexpr HadamardBase base_of(int order) {
  for (const HadamardBase& base : kHadamardBases)
    if (base.order == order) return base;
  return {};
}

/// What multiplies input i in output r.
template <int m, bool transposed>
struct Signs {
  int8_t of[m][m] = {};
  constexpr Signs() {
    for (int i = 0; i < m; ++i)
      for (int r = 0; r < m; ++r) of[i][r] = int8_t(transposed ? base_of(m).sign(r, i) : base_of(m).sign(i, r));
  }
};
template <int m, bool transposed>
constexpr Signs<m, transposed> kSigns;

/// sum (+)= inputs 4g to 4g+3 with their signs in output r. `combinations` holds the sums of each four inputs in the
/// eight ways in which they differ but for the sign of the whole: bits 0, 1, 2 subtract the second, third, fourth.
template <int m, bool transposed, int r, int g>
[[gnu::always_inline]] inline Vec output(const Vec (&combinations)[m / 4][8]) {
  constexpr const auto& s = kSigns<m, transposed>.of;
  constexpr int first = s[4 * g][r];
  constexpr int way = (s[4 * g + 1][r] != first) + 2 * (s[4 * g + 2][r] != first) + 4 * (s[4 * g + 3][r] != first);
  if constexpr (g == 0) {
    return first > 0 ? combinations[g][way] : -combinations[g][way];
  } else {
    const Vec before = output<m, transposed, r, g - 1>(combinations);
    return first > 0 ? before + combinations[g][way] : before - combinations[g][way];
  }
}

template <int m, bool transposed, int r = 0, class Store>
[[gnu::always_inline]] inline void outputs(const Vec (&combinations)[m / 4][8], Store&& put) {
  if constexpr (r < m) {
    put(r, output<m, transposed, r, m / 4 - 1>(combinations));
    outputs<m, transposed, r + 1>(combinations, put);
  }
}

/// row[r n + c] = sum_i row[i n + c] H_m[i,r], or H_m[r,i] when transposed. In f32 alone: one such pass for every type
/// of rows would be half of what this file takes to compile, and saves a copy within the first cache.
template <int m, bool transposed>
void base_pass(float* row, int64_t n) {
  const auto column = [=](int64_t c, auto lanes) __attribute__((always_inline)) {
    Vec combinations[m / 4][8];
#pragma GCC unroll 16
    for (int g = 0; g < m / 4; ++g) {
      const float* at = row + 4 * g * n + c;
      const Vec a = load(at, lanes), b = load(at + n, lanes), p = load(at + 2 * n, lanes), q = load(at + 3 * n, lanes);
      const Vec low[2] = {a + b, a - b}, high[2] = {p + q, p - q};
#pragma GCC unroll 2
      for (int way = 0; way < 2; ++way) {
        combinations[g][way] = low[way] + high[0];
        combinations[g][way + 4] = low[way] + high[1];
        combinations[g][way + 2] = low[way] - high[1];
        combinations[g][way + 6] = low[way] - high[0];
      }
    }
    outputs<m, transposed>(
        combinations, [=](int r, Vec v) __attribute__((always_inline)) { store(row + r * n + c, v, lanes); });
  };
  each(n, column);
}

// ---- passes over a row of `order` elements

/// The strides length/2, ..., length/R of every block of `length`.
template <int R, class Load>
void strided_pass(float* row, int64_t order, int64_t length, Load load_from) {
  const int64_t stride = length / R;
  for (int64_t block = 0; block < order; block += length)
    for (int64_t c = block; c < block + stride; c += kLanes) {
      Vec v[R];
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) v[r] = load_from(c + r * stride, All{});
      across(v);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) store(row + c + r * stride, v[r]);
    }
}

/// The strides below R vectors, handing the first `columns` results to emit(i, v, lanes).
template <int R, class Emit>
void last_pass(const float* row, int64_t columns, Emit emit) {
  const auto block = [=](int64_t i, auto&& each_vector) __attribute__((always_inline)) {
    Vec v[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) v[r] = load(row + i + r * kLanes);
    inside(v);
    across(v);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) each_vector(i + r * kLanes, v[r]);
  };
  int64_t i = 0;
  for (; i + R * kLanes <= columns; i += R * kLanes)
    block(
        i, [=](int64_t c, Vec v) __attribute__((always_inline)) { emit(c, v, All{}); });
  if (i < columns)
    block(
        i, [=](int64_t c, Vec v) __attribute__((always_inline)) {
          if (c + kLanes <= columns)
            emit(c, v, All{});
          else if (c < columns)
            emit(c, v, First{int(columns - c)});
        });
}

/// The same for a power of two below the width of a vector, which then holds several blocks.
template <class Emit>
void last_pass_of_lanes(const float* row, int64_t order, int64_t power, int64_t columns, Emit emit) {
  for (int64_t i = 0; i < columns; i += kLanes) {
    Vec v = i + kLanes <= order ? load(row + i) : load(row + i, First{int(order - i)});
    for (int stride = 1; stride < power; stride *= 2) v = within(v, stride);
    if (i + kLanes <= columns)
      emit(i, v, All{});
    else
      emit(i, v, First{int(columns - i)});
  }
}

template <class Load>
[[gnu::always_inline]] inline void strided_pass_of(int radix, float* row, int64_t order, int64_t length,
                                                   Load load_from) {
  switch (radix) {
    case 2: return strided_pass<2>(row, order, length, load_from);
    case 4: return strided_pass<4>(row, order, length, load_from);
    case 8: return strided_pass<8>(row, order, length, load_from);
    case 16: return strided_pass<kRadix>(row, order, length, load_from);
  }
}

struct Order {
  int64_t order, power;
  int base;
  bool transposed;
};

inline void base_pass_of(const Order& o, float* row) {
  switch (o.base) {
    case 12: return base_pass<12, false>(row, o.power);
    case 20: return o.transposed ? base_pass<20, true>(row, o.power) : base_pass<20, false>(row, o.power);
    case 28: return base_pass<28, false>(row, o.power);
    case 36: return base_pass<36, false>(row, o.power);
  }
}

/// A vector of a row in its own type.
template <class T>
struct From {
  const T* x;
  template <class Lanes>
  [[gnu::always_inline]] Vec operator()(int64_t i, Lanes lanes) const {
    return load(x + i, lanes);
  }
};

/// The same times `factor`.
template <class T>
struct Scaled {
  const T* x;
  const float* factor;
  template <class Lanes>
  [[gnu::always_inline]] Vec operator()(int64_t i, Lanes lanes) const {
    return load(x + i, lanes) * load(factor + i, lanes);
  }
};

/// emit(c, (x H)[c], lanes) for c in [0, columns).
template <class Load, class Emit>
[[gnu::always_inline]] inline void transform(const Order& o, float* row, int64_t columns, Load x, Emit emit) {
  const int64_t block = o.power < kRadix * kLanes ? o.power : kRadix * kLanes;
  int64_t length = o.power;
  const auto radix = [&] { return int(length / block < kRadix ? length / block : kRadix); };
  const From<float> again{row};
  if (columns < o.order || o.base > 1 || length == block) {
    each(columns, [=](int64_t c, auto lanes) { store(row + c, x(c, lanes), lanes); });
    __builtin_memset(row + columns, 0, size_t(o.order - columns) * sizeof(float));
    base_pass_of(o, row);
  } else {
    const int r = radix();
    strided_pass_of(r, row, o.order, length, x);
    length /= r;
  }
  while (length > block) {
    const int r = radix();
    strided_pass_of(r, row, o.order, length, again);
    length /= r;
  }
  switch (block / kLanes) {
    case 0: return last_pass_of_lanes(row, o.order, o.power, columns, emit);
    case 1: return last_pass<1>(row, columns, emit);
    case 2: return last_pass<2>(row, columns, emit);
    case 4: return last_pass<4>(row, columns, emit);
    case 8: return last_pass<8>(row, columns, emit);
    case 16: return last_pass<kRadix>(row, columns, emit);
  }
}

/// Asks for what a later row reads; into the second cache, because the first holds the row in work.
template <class T>
[[gnu::always_inline]] inline void ask(const T* read) {
  __builtin_prefetch(read, 0, 2);
}
/// Asks for what it writes.
template <class T>
[[gnu::always_inline]] inline void ask(const Written<T>& out, int64_t i) {
  if (!out.around) ask(out.data + i);
}

/// out[first + i] = factor v + shift
template <class T>
struct Affine {
  Written<T> out;
  int64_t first;
  const float *factor, *shift;
  const T* source;
  int64_t ahead;
  template <class Lanes>
  [[gnu::always_inline]] void operator()(int64_t i, Vec v, Lanes lanes) const {
    ask(source + i + ahead);
    ask(out, first + i + ahead);
    out(first + i, v * load(factor + i, lanes) + load(shift + i, lanes), lanes);
  }
};

/// out[first + i] = v, or += v
template <class T, bool accumulate>
struct Put {
  Written<T> out;
  int64_t first;
  const T* source;
  int64_t ahead;
  template <class Lanes>
  [[gnu::always_inline]] void operator()(int64_t i, Vec v, Lanes lanes) const {
    ask(source + i + ahead);
    ask(out, first + i + ahead);
    put<accumulate>(out, first + i, v, lanes);
  }
};

/// products += dout v,  sums += dout
template <class T>
struct Sums {
  const T* dout;
  float *products, *sums;
  const T* source;
  int64_t ahead;
  template <class Lanes>
  [[gnu::always_inline]] void operator()(int64_t i, Vec v, Lanes lanes) const {
    ask(source + i + ahead);
    ask(dout + i + ahead);
    const Vec d = load(dout + i, lanes);
    store(products + i, load(products + i, lanes) + d * v, lanes);
    store(sums + i, load(sums + i, lanes) + d, lanes);
  }
};

/// factor = scale alpha, and shift = beta when it is wanted.
[[gnu::always_inline]] inline void prepare(float* factor, float* shift, const Tensor& alpha, const Tensor& beta,
                                           float scale, int64_t columns) {
  const float *a = pointer<float>(alpha), *b = pointer<float>(beta);
  each(columns, [=](int64_t c, auto lanes) {
    store(factor + c, a ? load(a + c, lanes) * scale : splat(scale), lanes);
    if (shift) store(shift + c, b ? load(b + c, lanes) : Vec{}, lanes);
  });
}

/// Where the row from `first` on is worked on: where it goes if that holds f32 and stays in the caches, else in `row`.
/// Fewer bytes then pass the first cache.
[[gnu::always_inline]] inline float* place(const Written<float>& out, int64_t first, bool whole, float* row) {
  return whole && !out.around ? out.data + first : row;
}
[[gnu::always_inline]] inline float* place(const Written<bf16>&, int64_t, bool, float* row) { return row; }

/// Elements from the row in work to what is asked for: a row, and at least 16 KB.
template <class T>
[[gnu::always_inline]] inline int64_t distance(int64_t columns) {
  const int64_t least = 16384 / int64_t(sizeof(T));
  return columns > least ? columns : least;
}

template <class T>
void hadamard_of(const HadamardTask& task) {
  const HadamardArgs& a = task.args;
  const int64_t rows = rows_of(a.x), C = cols_of(a.x);
  const Order order{a.order, a.order / task.base, task.base, false};
  const T* x = pointer<T>(a.x);
  const Written<T> out = written<T>(a.out, C);
  float *work = task.row, *factor = task.vectors, *shift = task.vectors + C;
  prepare(factor, shift, a.alpha, a.beta, float(a.scale), C);
  parallel(rows, grain_of_rows(2 * C * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t part) {
    const int64_t ahead = distance<T>(C);
    for (int64_t n = begin; n < end; ++n)
      transform(order, place(out, n * C, C == order.order, work + part * order.order), C, From<T>{x + n * C},
                Affine<T>{out, n * C, factor, shift, x + n * C, ahead});
  });
}

template <class T, bool accumulate>
void hadamard_grad_of(const HadamardGradTask& task) {
  const HadamardGradArgs& a = task.args;
  const int64_t rows = rows_of(a.dout), C = cols_of(a.dout);
  const Order forward{a.order, a.order / task.base, task.base, false};
  const Order backward{forward.order, forward.power, forward.base, true};
  const T *x = pointer<T>(a.x), *dout = pointer<T>(a.dout);
  const Written<T> dx = a.dx ? written<T>(a.dx, C) : Written<T>{};
  const float scale = float(a.scale);
  float *dalpha = pointer<float>(a.dalpha), *dbeta = pointer<float>(a.dbeta), *work = task.row, *partial = task.partial;
  float* factor = task.vectors;
  prepare(factor, nullptr, a.alpha, {}, scale, C);
  const int64_t grain = grain_of_rows(3 * C * int64_t(sizeof(T)));
  parallel(rows, grain, [=](int64_t begin, int64_t end, int64_t part) {
    float* row = work + part * forward.order;
    float *products = partial + 2 * part * C, *sums = products + C;
    if (partial) __builtin_memset(products, 0, size_t(2 * C) * sizeof(float));
    const int64_t ahead = distance<T>(C);
    for (int64_t n = begin; n < end; ++n) {
      const T* d = dout + n * C;
      if (dalpha)
        transform(forward, row, C, From<T>{x + n * C}, Sums<T>{d, products, sums, x + n * C, ahead});
      else if (dbeta)
        each(C, [=](int64_t c, auto lanes) { store(sums + c, load(sums + c, lanes) + load(d + c, lanes), lanes); });
      if (dx.data)
        transform(backward, place(dx, n * C, !accumulate && C == forward.order, row), C, Scaled<T>{d, factor},
                  Put<T, accumulate>{dx, n * C, d, ahead});
    }
  });
  if (partial)
    for (int64_t part = 0, parts = rows ? parts_of(rows, grain) : 0; part < parts; ++part)
      each(C, [=](int64_t c, auto lanes) {
        const float* products = partial + 2 * part * C + c;
        if (dalpha) store(dalpha + c, load(dalpha + c, lanes) + scale * load(products, lanes), lanes);
        if (dbeta) store(dbeta + c, load(dbeta + c, lanes) + load(products + C, lanes), lanes);
      });
}

}  // namespace

void hadamard(const HadamardTask& task) {
  by_type(task.args.x.dtype(), [&]<class T>() { hadamard_of<T>(task); });
}

void hadamard_grad(const HadamardGradTask& task) {
  by_type(task.args.dout.dtype(), [&]<class T>() {
    by_flag(task.args.accumulate, [&]<bool accumulate>() { hadamard_grad_of<T, accumulate>(task); });
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
