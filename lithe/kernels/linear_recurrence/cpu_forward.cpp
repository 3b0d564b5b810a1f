#include "lithe/kernels/linear_recurrence/cpu_scan.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// The sums that outputs are divided by: n <- gate n + k, d = q n. Rows of q and k as they were opened.
template <class T>
struct Divisors {
  const RecurrenceBlocks<T>& b;
  float* sums;  // n [k_row]

  [[gnu::always_inline]] float read(const float* q) const {
    return sum(total(
        b.call.space.k_row, [&](int64_t c, auto lanes)
                                __attribute__((always_inline)) { return load(q + c, lanes) * load(sums + c, lanes); }));
  }
  template <Gate kGate>
  [[gnu::always_inline]] void add(const float* k, const float* gate) const {
    for (int64_t c = 0; c < b.call.space.k_row; c += kLanes) {
      Vec n = load(sums + c);
      if constexpr (kGate == Gate::scalar) n *= splat(*gate);
      if constexpr (kGate == Gate::row) n *= load(gate + c);
      store(sums + c, n + load(k + c));
    }
  }
};

template <class T>
[[gnu::noinline]] void write_rows(const RecurrenceBlocks<T>& b, int64_t first, int64_t count, const float* divisors) {
  const float* from = b.place(b.call.space.out);
  T* to = pointer<T>(b.a.out) + ((b.span.row + first) * b.a.heads + b.head) * b.V;
  for (int64_t i = 0; i < count; ++i, from += b.call.space.v_row, to += b.a.heads * b.V) {
    const float factor = divisors ? 1 / divisors[i] : 1;
    each(
        b.V, [&](int64_t c, auto lanes)
                 __attribute__((always_inline)) { store(to + c, load(from + c, lanes) * factor, lanes); });
  }
}

/// The state between calls [K][V], n [K] and that of a scan [K][v_row], n [k_row].
template <class T>
[[gnu::noinline]] void open_state(const RecurrenceBlocks<T>& b) {
  const RecurrenceSpace& at = b.call.space;
  float *state = b.place(at.state), *sums = b.place(at.sums);
  const float* from = b.span.state ? b.span.state + b.head * recurrence_state(b.K, b.V, b.a.normalise) : nullptr;
  for (int64_t c = 0; c < b.K; ++c, state += at.v_row) {
    for (int64_t m = b.V / kLanes * kLanes; m < at.v_row; m += kLanes) store(state + m, Vec{});
    each(b.V, [&](int64_t m, auto lanes) { store(state + m, from ? load(from + c * b.V + m, lanes) : Vec{}); });
  }
  if (!b.a.normalise) return;
  for (int64_t c = 0; c < at.k_row; c += kLanes) store(sums + c, Vec{});
  if (from) each(b.K, [&](int64_t c, auto lanes) { store(sums + c, load(from + b.K * b.V + c, lanes)); });
}
template <class T>
[[gnu::noinline]] void close_state(const RecurrenceBlocks<T>& b) {
  const RecurrenceSpace& at = b.call.space;
  const float *state = b.place(at.state), *sums = b.place(at.sums);
  float* to = b.span.state + b.head * recurrence_state(b.K, b.V, b.a.normalise);
  for (int64_t c = 0; c < b.K; ++c, state += at.v_row)
    each(b.V, [&](int64_t m, auto lanes) { store(to + c * b.V + m, load(state + m, lanes), lanes); });
  if (b.a.normalise) each(b.K, [&](int64_t c, auto lanes) { store(to + b.K * b.V + c, load(sums + c, lanes), lanes); });
}

template <class T, Gate kGate>
void forward_head(const RecurrenceBlocks<T>& b) {
  const RecurrenceCall& call = b.call;
  const RecurrenceSpace& at = call.space;
  const Divisors<T> divisors{b, b.place(at.sums)};
  open_state(b);
  DeltaScan s{};
  s.x = b.place(at.k), s.y = b.place(at.v), s.z = b.place(at.q), s.gate = b.place(at.gates);
  s.out = b.place(at.out), s.state = b.place(at.state);
  s.rows = b.K, s.lanes = at.v_row;
  s.x_step = s.z_step = at.k_row, s.y_step = at.x_row, s.out_step = s.state_row = at.v_row;
  s.gate_step = kGate == Gate::row ? at.k_row : 1, s.weight_step = b.a.heads;
  const auto write = [&](int64_t first, const float* found) { write_rows(b, first, s.count, found); };
  alignas(64) float found[kRecurrenceRows];
  const auto divide = [&](int64_t first, int64_t i) {
    const float d = divisors.read(s.z + i * at.k_row);
    found[i] = d < float(b.a.floor) ? d + float(b.a.floor) : d;
    pointer<float>(b.a.divisors)[(b.span.row + first + i) * b.a.heads + b.head] = found[i];
  };
  for (int64_t first = 0; first < b.span.rows; first += kRecurrenceRows) {
    s.count = b.count_from(first);
    b.open_k(first, s.count);
    b.open_v(first, s.count);
    b.open_gates(first, s.count, 0);
    if (b.a.causal) b.open_q(first, s.count);
    s.weights = b.weights(b.a.write, first);
    if (b.a.delta)
      delta_scan<kGate, false>(s);
    else if (b.a.causal)
      scan<kGate>(s);
    else
      scan<Gate::none, Does::write>(s);
    for (int64_t i = 0; i < s.count && b.a.normalise; ++i) {
      divisors.template add<kGate>(s.x + i * at.k_row, s.gate + i * s.gate_step);
      if (b.a.causal) divide(first, i);
    }
    if (b.a.causal) write(first, b.a.normalise ? found : nullptr);
  }
  for (int64_t first = 0; first < b.span.rows && !b.a.causal; first += kRecurrenceRows) {
    s.count = b.count_from(first);
    b.open_q(first, s.count);
    scan<Gate::none, Does::read>(s);
    for (int64_t i = 0; i < s.count && b.a.normalise; ++i) divide(first, i);
    write(first, b.a.normalise ? found : nullptr);
  }
  if (b.span.state) close_state(b);
}

template <class T, Gate kGate>
void run(const RecurrenceCall& call) {
  each_head(call, [&](int64_t span, int64_t head, float* space) {
    forward_head<T, kGate>(RecurrenceBlocks<T>(call, call.spans[span], head, space));
  });
}

}  // namespace

void linear_recurrence_forward(const RecurrenceCall& call) {
  by_type(call.args->v.dtype(), [&]<class T>() {
    if (call.decay == RecurrenceDecay::none)
      run<T, Gate::none>(call);
    else if (call.decay == RecurrenceDecay::channels)
      run<T, Gate::row>(call);
    else
      run<T, Gate::scalar>(call);
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
