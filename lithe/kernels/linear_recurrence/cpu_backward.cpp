// Gradients as scans. With S the state and R the gradient that later rows give it (reference.h), transposed where keys
// are the lanes:
//   dq[t] = dn[t] S[t]^T, forward;   dv[t] = b k[t] R[t], dk[t] = b v[t] R[t]^T, from the last row to the first.
// The decay's gradient needs no state: row i reads and writes the state once, and all later rows see its decay, so that
//   dlog_decay[t] = sum of q[i] dq[i] - k[i] dk[i] over i >= t.
// The delta rule writes u = b e instead of b v and reads the state once more, by k with the gradient -w, w = b k R.
#include "lithe/kernels/linear_recurrence/cpu_scan.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <class T, Gate kLaneGate, Gate kRowGate>
struct Backward {
  static constexpr bool kChannels = kLaneGate == Gate::lane;
  const RecurrenceBlocks<T>& b;
  const RecurrenceCall& call = b.call;
  const LinearRecurrenceArgs& a = b.a;
  const LinearRecurrenceGradArgs& g = *b.call.grad_args;
  const RecurrenceSpace& at = b.call.space;
  const int64_t K = b.K, V = b.V, rows = b.span.rows;
  const int64_t state_of_keys = (V + 1) * at.k_row;
  float *const q = b.place(at.q), *const k = b.place(at.k), *const v = b.place(at.v), *const dn = b.place(at.dout),
               *const out = b.place(at.out), *const gates = b.place(at.gates);
  double* const terms = reinterpret_cast<double*>(b.place(at.terms));
  // One state has keys in its lanes, or two for the delta rule; another has values there.
  float *const by_keys = b.place(at.state), *const by_keys_again = by_keys + state_of_keys,
               *const by_values = by_keys + state_of_keys;

  // ---- blocks

  /// dout over the divisors; beside it the divisors' own gradient.
  [[gnu::noinline]] void open_dn(int64_t first, int64_t count) const {
    widen_block(b.rows(g.dout, V, first), a.heads * V, count, V, 1.0f, nullptr, 0, dn, at.x_row);
    if (!a.normalise) return;
    const T* y = b.rows(a.out, V, first);
    for (int64_t i = 0; i < count; ++i, y += a.heads * V) {
      float* row = dn + i * at.x_row;
      const float factor = 1 / b.weights(a.divisors, first + i)[0];
      const float mean = sum(total(
          V, [&](int64_t c, auto lanes)
                 __attribute__((always_inline)) { return load(row + c, lanes) * load(y + c, lanes); }));
      for (int64_t c = 0; c < at.x_row; c += kLanes) store(row + c, load(row + c) * factor);
      row[V] = -mean * factor;
    }
  }
  /// The delta rule's u in place of values.
  [[gnu::noinline]] void open_u(int64_t first, int64_t count) const {
    const float *from = b.place(at.errors) + first * at.v_row, *weights = b.weights(a.write, first);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < at.v_row; c += kLanes)
        store(v + i * at.x_row + c, load(from + i * at.v_row + c) * (weights ? weights[i * a.heads] : 1.0f));
  }
  /// -w and the scaled keys of the rows after these.
  [[gnu::noinline]] void open_shifted(int64_t first, int64_t count) const {
    float *to_k = b.place(at.shifted_k), *to_v = b.place(at.shifted_v);
    const int64_t there = rows - first - 1 < count ? rows - first - 1 : count;
    widen_block(b.rows(a.k, K, first + 1), a.heads * K, there, K, 1.0f, nullptr, 0, to_k, at.k_row);
    for (int64_t i = 0; i < count; ++i, to_k += at.k_row, to_v += at.v_row) {
      const float* w = b.place(at.writes) + (first + i + 1) * at.v_row;
      for (int64_t c = 0; c < at.v_row; c += kLanes) store(to_v + c, i < there ? -load(w + c) : Vec{});
      for (int64_t c = 0; c < at.k_row; c += kLanes) {
        Vec x = i < there ? load(to_k + c) : Vec{};
        if constexpr (kLaneGate == Gate::lane) x *= load(gates + i * at.k_row + c);
        if constexpr (kLaneGate == Gate::scalar) x *= splat(gates[i]);
        store(to_k + c, x);
      }
    }
  }
  void open_all(int64_t first, int64_t count, int64_t shift, bool queries) const {
    if (queries) b.open_q(first, count);
    b.open_k(first, count);
    open_dn(first, count);
    b.open_gates(first, count, shift);
    if (a.delta)
      open_u(first, count);
    else
      b.open_v(first, count);
  }

  /// to[i, c] (+)= factor x[i, c] of rows `step` apart.
  template <class U>
  [[gnu::noinline]] void give(const float* x, int64_t row, int64_t cols, float factor, U* to, int64_t first,
                              int64_t count, bool add) const {
    to += ((b.span.row + first) * a.heads + b.head) * cols;
    for (int64_t i = 0; i < count; ++i, x += row, to += a.heads * cols)
      each(
          cols, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            Vec d = load(x + c, lanes) * factor;
            if (add) d += load(to + c, lanes);
            store(to + c, d, lanes);
          });
  }
  static float dot(const float* x, const float* y, int64_t n) {
    return sum(total(
        n, [&](int64_t c, auto lanes)
               __attribute__((always_inline)) { return load(x + c, lanes) * load(y + c, lanes); }));
  }
  /// x . y in f64, k_row numbers: what is summed over time nearly cancels.
  static double exact_dot(const float* x, const float* y, int64_t n) {
    double sums[8] = {};
    for (int64_t c = 0; c < n; c += 8)
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) sums[i] += double(x[c + i]) * double(y[c + i]);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
  /// terms[row] (+)= sign x y, summed over channels unless each has its own decay.
  [[gnu::noinline]] void add_terms(const float* x, const float* y, double sign, bool add, int64_t first,
                                   int64_t count) const {
    if (!g.dlog_decay.raw()) return;
    for (int64_t i = 0; i < count; ++i, x += at.k_row, y += at.k_row) {
      double* to = terms + (first + i) * (kChannels ? at.k_row : 1);
      if constexpr (!kChannels) {
        *to = (add ? *to : 0) + sign * exact_dot(x, y, at.k_row);
      } else {
        for (int64_t c = 0; c < at.k_row; ++c) to[c] = (add ? to[c] : 0) + sign * double(x[c]) * double(y[c]);
      }
    }
  }
  static void clear(float* x, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) store(x + i, Vec{});
  }
  /// The state that the segment started from, transposed, with n as its last row.
  [[gnu::noinline]] void open_keys_state(float* to) const {
    clear(to, state_of_keys);
    if (!b.span.state) return;
    const float* from = b.span.state + b.head * recurrence_state(K, V, a.normalise);
    for (int64_t c = 0; c < K; ++c) {
      for (int64_t m = 0; m < V; ++m) to[m * at.k_row + c] = from[c * V + m];
      if (a.normalise) to[V * at.k_row + c] = from[K * V + c];
    }
  }
  void open_values_state(float* to) const {
    clear(to, K * at.v_row);
    if (!b.span.state) return;
    const float* from = b.span.state + b.head * recurrence_state(K, V, a.normalise);
    for (int64_t c = 0; c < K; ++c)
      for (int64_t m = 0; m < V; ++m) to[c * at.v_row + m] = from[c * V + m];
  }

  // ---- scans of a block

  [[gnu::always_inline]] DeltaScan keys_scan(const float* x, const float* y, const float* z, float* state,
                                             int64_t count, bool back) const {
    DeltaScan s{};
    s.x = x, s.y = y, s.z = z, s.gate = gates, s.out = out, s.state = state;
    s.count = count, s.rows = V + a.normalise, s.lanes = s.y_step = s.out_step = s.state_row = at.k_row;
    s.x_step = s.z_step = at.x_row, s.gate_step = kChannels ? at.k_row : 1;
    return back ? turned(s) : s;
  }
  [[gnu::always_inline]] DeltaScan values_scan(const float* x, const float* y, const float* z, float* state,
                                               int64_t count, bool back) const {
    DeltaScan s{};
    s.x = x, s.y = y, s.z = z, s.gate = gates, s.out = out, s.state = state;
    s.count = count, s.rows = K, s.lanes = s.out_step = s.state_row = at.v_row;
    s.x_step = s.z_step = at.k_row, s.y_step = at.x_row, s.gate_step = kChannels ? at.k_row : 1;
    s.weight_step = a.heads;
    return back ? turned(s) : s;
  }
  /// The same rows from the last to the first.
  [[gnu::always_inline]] static DeltaScan turned(DeltaScan s) {
    const int64_t last = s.count - 1;
    s.x += last * s.x_step, s.y += last * s.y_step, s.z += last * s.z_step;
    s.gate += last * s.gate_step, s.out += last * s.out_step;
    s.x_step = -s.x_step, s.y_step = -s.y_step, s.z_step = -s.z_step, s.gate_step = -s.gate_step,
    s.out_step = -s.out_step;
    return s;
  }

  // ---- passes

  template <class F>
  void upward(F&& f) const {
    for (int64_t first = 0; first < rows; first += kRecurrenceRows) f(first, b.count_from(first));
  }
  template <class F>
  void downward(F&& f) const {
    for (int64_t first = (rows - 1) / kRecurrenceRows * kRecurrenceRows; first >= 0; first -= kRecurrenceRows)
      f(first, b.count_from(first));
  }
  void give_dq(int64_t first, int64_t count) const {
    give(out, at.k_row, K, b.scale(), pointer<T>(g.dq), first, count, g.accumulate_dq);
  }
  void give_dv(const float* from, int64_t first, int64_t count) const {
    give(from, at.v_row, V, 1, pointer<T>(g.dv), first, count, g.accumulate_dv);
  }
  /// dk of what k times its weight has in `out`, and the weights' own.
  [[gnu::noinline]] void give_dk(int64_t first, int64_t count) const {
    const float* weights = a.delta ? nullptr : b.weights(a.write, first);
    for (int64_t i = 0; i < count; ++i) {
      if (g.dwrite.raw() && !a.delta) {
        widen_block(b.rows(a.k, K, first + i), 0, 1, K, 1.0f, nullptr, 0, k + i * at.k_row, at.k_row);
        put_number(g.dwrite, first + i, dot(k + i * at.k_row, out + i * at.k_row, at.k_row), g.accumulate_dwrite);
      }
      give(out + i * at.k_row, at.k_row, K, weights ? weights[i * a.heads] : 1.0f, pointer<T>(g.dk), first + i, 1,
           g.accumulate_dk);
    }
  }
  void put_number(const Tensor& to, int64_t row, float x, bool add) const {
    float& d = pointer<float>(to)[(b.span.row + row) * a.heads + b.head];
    d = add ? d + x : x;
  }

  /// The delta rule's errors e, and from the last row to the first w, dv and the weights' gradient.
  void errors() const {
    float *e = b.place(at.errors), *w = b.place(at.writes);
    open_values_state(by_values);
    upward([&](int64_t first, int64_t count) {
      b.open_k(first, count);
      b.open_v(first, count);
      b.open_gates(first, count, 0);
      DeltaScan s = values_scan(k, v, k, by_values, count, false);
      s.weights = b.weights(a.write, first), s.second_out = e + first * at.v_row;
      delta_scan<kRowGate, false>(s);
    });
    clear(by_values, K * at.v_row);
    downward([&](int64_t first, int64_t count) {
      b.open_q(first, count);
      b.open_k(first, count);
      open_dn(first, count);
      b.open_gates(first, count, 1);
      DeltaScan s = values_scan(q, dn, k, by_values, count, true);
      s.second_out = w + (first + count - 1) * at.v_row;
      s.weights = b.weights(a.write, first + count - 1), s.weight_step = -a.heads;
      delta_scan<kRowGate, true>(s);
      give_dv(w + first * at.v_row, first, count);
      for (int64_t i = 0; i < count && g.dwrite.raw(); ++i)
        put_number(g.dwrite, first + i, dot(out + i * at.v_row, e + (first + i) * at.v_row, at.v_row),
                   g.accumulate_dwrite);
    });
  }

  void queries() const {
    open_keys_state(by_keys);
    if (a.delta) open_keys_state(by_keys_again);
    upward([&](int64_t first, int64_t count) {
      open_all(first, count, 0, g.dlog_decay.raw());
      scan<kLaneGate>(keys_scan(v, k, dn, by_keys, count, false));
      add_terms(q, out, 1, false, first, count);
      give_dq(first, count);
      if (!a.delta) return;
      const float* w = b.place(at.writes) + first * at.v_row;
      scan<kLaneGate>(keys_scan(v, k, w, by_keys_again, count, false));
      float* reads = b.place(at.reads) + first * at.k_row;
      for (int64_t i = 0; i < count; ++i) {
        const float own = dot(w + i * at.v_row, v + i * at.x_row, at.v_row);
        for (int64_t c = i * at.k_row; c < (i + 1) * at.k_row; c += kLanes)
          store(reads + c, own * load(k + c) - load(out + c));
      }
      add_terms(k, reads, 1, true, first, count);
    });
  }

  void keys_and_values() const {
    clear(by_keys, state_of_keys);
    if (!a.delta) clear(by_values, K * at.v_row);
    downward([&](int64_t first, int64_t count) {
      open_all(first, count, 1, true);
      DeltaScan s = keys_scan(dn, q, v, by_keys, count, true);
      if (a.delta) {
        open_shifted(first, count);
        s.x2 = b.place(at.shifted_v) + (count - 1) * at.v_row, s.y2 = b.place(at.shifted_k) + (count - 1) * at.k_row;
        scan<kLaneGate, Does::all, true>(s);
      } else {
        scan<Gate(kRowGate)>(values_scan(q, dn, k, by_values, count, true));
        give_dv(out, first, count);
        scan<kLaneGate>(s);
      }
      add_terms(k, out, -1, true, first, count);
      const float* reads = b.place(at.reads) + first * at.k_row;
      for (int64_t c = 0; c < count * at.k_row && a.delta; c += kLanes) store(out + c, load(out + c) + load(reads + c));
      give_dk(first, count);
    });
  }

  /// Sums of the terms of later rows. The first row scales a state of zeros unless it continues one.
  [[gnu::noinline]] void decays() const {
    if (!g.dlog_decay.raw()) return;
    const int64_t n = kChannels ? K : 1;
    auto* sums = reinterpret_cast<double*>(b.place(at.sums));
    for (int64_t c = 0; c < n; ++c) sums[c] = 0;
    double all = 0;
    for (int64_t row = rows; row-- > 0;) {
      const bool none = row == 0 && !b.span.state;
      const double* term = terms + row * (kChannels ? at.k_row : 1);
      float* to = call.decay == RecurrenceDecay::constant
                      ? nullptr
                      : pointer<float>(g.dlog_decay) + ((b.span.row + row) * a.heads + b.head) * n;
      for (int64_t c = 0; c < n; ++c) {
        sums[c] += term[c];
        const double d = none ? 0 : sums[c];
        all += d;
        if (to) to[c] = float(g.accumulate_dlog_decay ? double(to[c]) + d : d);
      }
    }
    if (call.decay == RecurrenceDecay::constant) call.constants[(&b.span - call.spans) * a.heads + b.head] = all;
  }

  void causal() const {
    if (a.delta) errors();
    queries();
    keys_and_values();
    decays();
  }

  void both_ways() const {
    clear(by_keys, state_of_keys);
    upward([&](int64_t first, int64_t count) {
      b.open_k(first, count);
      b.open_v(first, count);
      scan<Gate::none, Does::write>(keys_scan(v, k, dn, by_keys, count, false));
    });
    upward([&](int64_t first, int64_t count) {
      open_dn(first, count);
      scan<Gate::none, Does::read>(keys_scan(v, k, dn, by_keys, count, false));
      give_dq(first, count);
    });
    clear(by_keys, state_of_keys);
    clear(by_values, K * at.v_row);
    upward([&](int64_t first, int64_t count) {
      b.open_q(first, count);
      open_dn(first, count);
      scan<Gate::none, Does::write>(keys_scan(dn, q, v, by_keys, count, false));
      scan<Gate::none, Does::write>(values_scan(q, dn, k, by_values, count, false));
    });
    upward([&](int64_t first, int64_t count) {
      b.open_k(first, count);
      b.open_v(first, count);
      scan<Gate::none, Does::read>(values_scan(q, dn, k, by_values, count, false));
      give_dv(out, first, count);
      scan<Gate::none, Does::read>(keys_scan(dn, q, v, by_keys, count, false));
      give_dk(first, count);
    });
  }
};

template <class T, Gate kLaneGate, Gate kRowGate>
void run(const RecurrenceCall& call) {
  each_head(call, [&](int64_t span, int64_t head, float* space) {
    const RecurrenceBlocks<T> blocks(call, call.spans[span], head, space);
    const Backward<T, kLaneGate, kRowGate> backward{blocks};
    call.args->causal ? backward.causal() : backward.both_ways();
  });
}

}  // namespace

void linear_recurrence_backward(const RecurrenceCall& call) {
  by_type(call.args->v.dtype(), [&]<class T>() {
    if (call.decay == RecurrenceDecay::none)
      run<T, Gate::none, Gate::none>(call);
    else if (call.decay == RecurrenceDecay::channels)
      run<T, Gate::lane, Gate::row>(call);
    else
      run<T, Gate::scalar, Gate::scalar>(call);
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
