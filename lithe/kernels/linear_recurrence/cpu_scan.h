// Scans: a state matrix that every row of a block scales, adds a product to and is read by. Tiles of the state stay in
// registers for a whole block of rows, so that a row costs a multiplication and two multiply-adds for each vector of
// the state: as many as products of chunks of rows would, without their masks, exponentials and bounds on the decay.
//
// The same scan serves the forward pass (lanes: values), the gradients of queries and keys (lanes: keys, the state
// transposed) and, from the last row to the first, those of keys and values.
#pragma once

#include "lithe/kernels/attention/cpu_tiles.h"
#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/linear_recurrence/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {

/// What scales the state before a row is added: nothing, one number, one for each row of the state, or for each lane.
enum class Gate { none, scalar, row, lane };

/// For each of `count` rows t, in the order of memory or against it (steps are negative then):
///   state <- gate[t] state + x[t]^T y[t] (+ x2[t]^T y2[t]);   out[t] = z[t] state
/// x, x2, z have a number for each of `rows` rows of the state; y, y2, out a number for each of `lanes` lanes, a
/// multiple of kLanes. Each element of out sums over the state's rows in their order.
struct Scan {
  const float *x, *y, *z, *gate, *x2, *y2;
  float *out, *state;
  int64_t count, rows, lanes;
  int64_t x_step, y_step, z_step, gate_step, out_step, state_row;
};

/// Which parts of a scan happen.
enum class Does { all, write, read };

template <Gate kGate, Does kDoes, bool kSecond, int kRows, int kVectors>
[[gnu::always_inline]] inline void scan_tile(const Scan& s, int64_t row, int64_t lane) {
  Vec state[kRows][kVectors];
  float* at = s.state + row * s.state_row + lane;
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) state[m][r] = load(at + m * s.state_row + r * kLanes);
  const float *x = s.x + row, *y = s.y + lane, *z = s.z + row, *x2 = s.x2 + row, *y2 = s.y2 + lane,
              *gate = s.gate + (kGate == Gate::row    ? row
                                : kGate == Gate::lane ? lane
                                                      : 0);
  float* out = s.out + lane;
  for (int64_t t = 0; t < s.count; ++t) {
    Vec sums[kVectors], values[kVectors], second[kVectors], factors[kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      if constexpr (kDoes != Does::write) sums[r] = load(out + r * kLanes);
      if constexpr (kDoes != Does::read) values[r] = load(y + r * kLanes);
      if constexpr (kSecond) second[r] = load(y2 + r * kLanes);
      if constexpr (kGate == Gate::lane) factors[r] = load(gate + r * kLanes);
      if constexpr (kGate == Gate::scalar) factors[r] = splat(*gate);
    }
#pragma GCC unroll 16
    for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        Vec& element = state[m][r];
        if constexpr (kGate == Gate::row) element *= splat(gate[m]);
        if constexpr (kGate == Gate::lane || kGate == Gate::scalar) element *= factors[r];
        if constexpr (kDoes != Does::read) element += splat(x[m]) * values[r];
        if constexpr (kSecond) element += splat(x2[m]) * second[r];
        if constexpr (kDoes != Does::write) sums[r] += splat(z[m]) * element;
      }
    if constexpr (kDoes != Does::write) {
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) store(out + r * kLanes, sums[r]);
      out += s.out_step, z += s.z_step;
    }
    if constexpr (kDoes != Does::read) x += s.x_step, y += s.y_step;
    if constexpr (kSecond) x2 += s.x_step, y2 += s.y_step;
    if constexpr (kGate != Gate::none) gate += s.gate_step;
  }
  if constexpr (kDoes != Does::read)
#pragma GCC unroll 16
    for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) store(at + m * s.state_row + r * kLanes, state[m][r]);
}

template <Gate kGate, Does kDoes, bool kSecond, int kRows, int kVectors>
[[gnu::always_inline]] inline void scan_rows(const Scan& s, int64_t lane, int64_t row = 0) {
  for (; row + kRows <= s.rows; row += kRows) scan_tile<kGate, kDoes, kSecond, kRows, kVectors>(s, row, lane);
  if constexpr (kRows > 1) scan_rows<kGate, kDoes, kSecond, kRows / 2, kVectors>(s, lane, row);
}

/// As many elements of the state as the registers hold beside the operands.
constexpr int kScanVectors = kLanes == 16 ? 4 : 2, kScanElements = kLanes == 16 ? 16 : 8;

template <Gate kGate, Does kDoes, bool kSecond, int kVectors = kScanVectors>
[[gnu::always_inline]] inline void scan_lanes(const Scan& s, int64_t lane = 0) {
  for (; lane + kVectors * kLanes <= s.lanes; lane += kVectors * kLanes)
    scan_rows<kGate, kDoes, kSecond, kScanElements / kVectors, kVectors>(s, lane);
  if constexpr (kVectors > 1) scan_lanes<kGate, kDoes, kSecond, kVectors / 2>(s, lane);
}

/// The scan; `out` starts at 0 here.
template <Gate kGate, Does kDoes = Does::all, bool kSecond = false>
[[gnu::noinline]] void scan(const Scan& s) {
  if constexpr (kDoes != Does::write)
    for (int64_t t = 0; t < s.count; ++t)
      for (int64_t lane = 0; lane < s.lanes; lane += kLanes) store(s.out + t * s.out_step + lane, Vec{});
  scan_lanes<kGate, kDoes, kSecond>(s);
}

// ---- blocks of rows

/// Rows as f32 times `factor` and, where given, times weights[i * weight_step], zeros up to `row`.
template <class T>
[[gnu::always_inline]] inline void widen_block(const T* from, int64_t stride, int64_t count, int64_t cols, float factor,
                                               const float* weights, int64_t weight_step, float* to, int64_t row) {
  for (int64_t i = 0; i < count; ++i, from += stride, to += row) {
    const float w = weights ? factor * weights[i * weight_step] : factor;
    for (int64_t c = cols / kLanes * kLanes; c < row; c += kLanes) store(to + c, Vec{});
    each(
        cols, [&](int64_t c, auto lanes) __attribute__((always_inline)) { store(to + c, load(from + c, lanes) * w); });
  }
}

/// One head of a span, and the places of a thread's workspace.
template <class T>
struct RecurrenceBlocks {
  const RecurrenceCall& call;
  const LinearRecurrenceArgs& a;
  const RecurrenceSpan& span;
  int64_t head, K, V;
  float* space;

  [[gnu::always_inline]] RecurrenceBlocks(const RecurrenceCall& c, const RecurrenceSpan& s, int64_t h, float* at)
      : call(c), a(*c.args), span(s), head(h), K(a.key_dim), V(a.value_dim), space(at) {}

  [[gnu::always_inline]] float* place(int64_t at) const { return space + at; }
  [[gnu::always_inline]] const T* rows(const Tensor& x, int64_t dim, int64_t first) const {
    return pointer<const T>(x) + ((span.row + first) * a.heads + head) * dim;
  }
  [[gnu::always_inline]] float scale() const { return a.normalise ? 1 : float(a.scale); }
  [[gnu::always_inline]] int64_t count_from(int64_t first) const {
    return span.rows - first < kRecurrenceRows ? span.rows - first : kRecurrenceRows;
  }
  [[gnu::always_inline]] const float* weights(const Tensor& x, int64_t first) const {
    return x.raw() ? pointer<const float>(x) + (span.row + first) * a.heads + head : nullptr;
  }

  [[gnu::noinline]] void open_q(int64_t first, int64_t count) const {
    widen_block(rows(a.q, K, first), a.heads * K, count, K, scale(), nullptr, 0, place(call.space.q), call.space.k_row);
  }
  /// Keys, times what they are written with unless the delta rule writes.
  [[gnu::noinline]] void open_k(int64_t first, int64_t count) const {
    widen_block(rows(a.k, K, first), a.heads * K, count, K, 1.0f, a.delta ? nullptr : weights(a.write, first), a.heads,
                place(call.space.k), call.space.k_row);
  }
  /// Values, and 1 beside them for the divisors.
  [[gnu::noinline]] void open_v(int64_t first, int64_t count) const {
    float* to = place(call.space.v);
    widen_block(rows(a.v, V, first), a.heads * V, count, V, 1.0f, nullptr, 0, to, call.space.x_row);
    for (int64_t i = 0; i < count && a.normalise; ++i) to[i * call.space.x_row + V] = 1;
  }

  /// Factors of rows first + shift and on; those beyond the segment are 1.
  [[gnu::noinline]] void open_gates(int64_t first, int64_t count, int64_t shift) const {
    float* to = place(call.space.gates);
    if (call.decay == RecurrenceDecay::none) return;
    const float* from = pointer<const float>(a.log_decay);
    if (call.decay == RecurrenceDecay::channels) {
      for (int64_t i = 0; i < count; ++i, to += call.space.k_row) {
        const int64_t row = first + i + shift;
        const bool is = row < span.rows;
        const float* logs = from + ((span.row + (is ? row : 0)) * a.heads + head) * K;
        for (int64_t c = K / kLanes * kLanes; c < call.space.k_row; c += kLanes) store(to + c, Vec{});
        each(
            K, [&](int64_t c, auto lanes)
                   __attribute__((always_inline)) { store(to + c, is ? exp(load(logs + c, lanes)) : splat(1)); });
      }
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = first + i + shift;
      to[i] = row >= span.rows                          ? 0
              : call.decay == RecurrenceDecay::constant ? from[head]
                                                        : from[(span.row + row) * a.heads + head];
    }
    for (int64_t i = 0; i < count; i += kLanes) store(to + i, exp(load(to + i)));
  }
};

/// Calls f(span, head, space) for all heads of all spans.
template <class F>
[[gnu::always_inline]] inline void each_head(const RecurrenceCall& call, F&& f) {
  const int64_t heads = call.args->heads;
  parallel(call.count * heads, call.grain, [&](int64_t begin, int64_t end, int64_t part) {
    for (int64_t i = begin; i < end; ++i) f(i / heads, i % heads, call.workspace + part * call.space.floats);
  });
}

// ---- the delta rule, where what is written depends on the state

/// What the rows of a block do beside a scan: x, y, z, out and gates as there. weights[t * weight_step], or null: 1.
struct DeltaScan : Scan {
  const float* weights;
  int64_t weight_step;
  float* second_out;  // of out_step, or null
  [[gnu::always_inline]] float weight(int64_t t) const { return weights ? weights[t * weight_step] : 1; }
};

/// state <- gate state;  e = y[t] - x[t] state;  state += x[t]^T weight e;  out[t] = z[t] state, second_out[t] = e.
/// Backward: state <- gate state + x[t]^T y[t];  out[t] = z[t] state;  second_out[t] = weight out[t];  state -= z[t]^T
/// second_out[t].
template <Gate kGate, bool kBackward, int kVectors>
[[gnu::always_inline]] inline void delta_tile(const DeltaScan& s, int64_t lane) {
  for (int64_t t = 0; t < s.count; ++t) {
    const float *x = s.x + t * s.x_step, *z = s.z + t * s.z_step, *gate = s.gate + t * s.gate_step;
    const float *y = s.y + t * s.y_step + lane, weight = s.weight(t);
    Vec sum[kVectors] = {}, added[kVectors], values[kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) values[r] = load(y + r * kLanes);
    float* at = s.state + lane;
    for (int64_t c = 0; c < s.rows; ++c, at += s.state_row)
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        Vec element = load(at + r * kLanes);
        if constexpr (kGate != Gate::none) element *= splat(gate[kGate == Gate::row ? c : 0]);
        if constexpr (kBackward) element += splat(x[c]) * values[r];
        if constexpr (kGate != Gate::none || kBackward) store(at + r * kLanes, element);
        sum[r] += splat(kBackward ? z[c] : x[c]) * element;
      }
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      const Vec error = kBackward ? sum[r] : values[r] - sum[r];
      added[r] = error * weight;
      if (s.second_out) store(s.second_out + t * s.out_step + lane + r * kLanes, kBackward ? added[r] : error);
      if constexpr (kBackward) store(s.out + t * s.out_step + lane + r * kLanes, error);
      sum[r] = Vec{};
    }
    at = s.state + lane;
    for (int64_t c = 0; c < s.rows; ++c, at += s.state_row)
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        const Vec old = load(at + r * kLanes),
                  element = kBackward ? old - splat(z[c]) * added[r] : old + splat(x[c]) * added[r];
        store(at + r * kLanes, element);
        if constexpr (!kBackward) sum[r] += splat(z[c]) * element;
      }
    if constexpr (!kBackward)
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) store(s.out + t * s.out_step + lane + r * kLanes, sum[r]);
  }
}

template <Gate kGate, bool kBackward, int kVectors = 4>
[[gnu::always_inline]] inline void delta_lanes(const DeltaScan& s, int64_t lane = 0) {
  for (; lane + kVectors * kLanes <= s.lanes; lane += kVectors * kLanes)
    delta_tile<kGate, kBackward, kVectors>(s, lane);
  if constexpr (kVectors > 1) delta_lanes<kGate, kBackward, kVectors / 2>(s, lane);
}

template <Gate kGate, bool kBackward>
[[gnu::noinline]] void delta_scan(const DeltaScan& s) {
  delta_lanes<kGate, kBackward>(s);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
