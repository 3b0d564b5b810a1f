#include "lithe/kernels/linear_recurrence/linear_recurrence.h"

#include <algorithm>

#include "lithe/base/threads.h"
#include "lithe/kernels/checks.h"
#include "lithe/kernels/linear_recurrence/cpu.h"
#include "lithe/kernels/linear_recurrence/reference.h"

namespace lithe::kernels {
namespace {

RecurrenceDecay decay_of(const LinearRecurrenceArgs& a) {
  if (!a.log_decay) return RecurrenceDecay::none;
  if (a.log_decay.shape().rank() == 1) return RecurrenceDecay::constant;
  return a.log_decay.cols() == a.heads ? RecurrenceDecay::scalar : RecurrenceDecay::channels;
}

void check_rows_of(const char* op, const Named& x, const LinearRecurrenceArgs& a, int64_t columns, DType type) {
  check(x.tensor && x.tensor.shape() == Shape{a.q.rows(), columns} && x.tensor.dtype() == type, op, x.name, " must be ",
        type, Shape{a.q.rows(), columns}, " of ", a.heads, " heads, got ", x.tensor);
}

// The rows that the segments cover, each once.
int64_t check_args(const char* op, const LinearRecurrenceArgs& a) {
  check_rows(op, {"q", a.q});
  check(a.heads > 0 && a.key_dim > 0 && a.value_dim > 0, op, "heads, key_dim and value_dim must be positive, got ",
        a.heads, ", ", a.key_dim, " and ", a.value_dim);
  const DType type = a.q.dtype(), wide = wide_of(type);
  check_rows_of(op, {"q", a.q}, a, a.heads * a.key_dim, type);
  check_rows_of(op, {"k", a.k}, a, a.heads * a.key_dim, type);
  check_rows_of(op, {"v", a.v}, a, a.heads * a.value_dim, type);
  check_rows_of(op, {"out", a.out}, a, a.heads * a.value_dim, type);
  check_alias(op, {"out", a.out}, {}, {{"q", a.q}, {"k", a.k}, {"v", a.v}});
  if (a.write) check_rows_of(op, {"write", a.write}, a, a.heads, wide);
  check(!a.normalise || !a.delta, op, "the delta rule has no divisors: normalise and delta exclude each other");
  if (a.normalise) check_rows_of(op, {"divisors", a.divisors}, a, a.heads, wide);
  if (a.log_decay) {
    const Shape& s = a.log_decay.shape();
    const bool fits =
        s == Shape{a.heads} || s == Shape{a.q.rows(), a.heads} || s == Shape{a.q.rows(), a.heads * a.key_dim};
    check(fits && a.log_decay.dtype() == wide, op, "log_decay must be ", wide, Shape{a.heads}, ", ",
          Shape{a.q.rows(), a.heads}, " or ", Shape{a.q.rows(), a.heads * a.key_dim}, ", got ", a.log_decay);
  }
  check(a.causal || (!a.log_decay && !a.delta), op, "both directions have no decay and no delta rule");
  int64_t rows = 0;
  std::vector<std::pair<int64_t, int64_t>> covered;
  for (const RecurrenceSegment& s : a.segments) {
    check(s.row >= 0 && s.rows >= 0 && s.row + s.rows <= a.q.rows(), op, "a segment has rows [", s.row, ",",
          s.row + s.rows, "), outside of q ", a.q.shape());
    if (s.state) {
      const Shape wanted{a.heads, recurrence_state(a.key_dim, a.value_dim, a.normalise)};
      check(a.causal, op, "a state continues causal sums only");
      check(s.state.shape() == wanted && s.state.dtype() == wide, op, "a state must be ", wide, wanted, ", got ",
            s.state.dtype(), s.state.shape());
    }
    rows += s.rows;
    covered.push_back({s.row, s.row + s.rows});
  }
  if (!std::is_sorted(covered.begin(), covered.end())) std::sort(covered.begin(), covered.end());
  for (size_t i = 1; i < covered.size(); ++i)
    check(covered[i - 1].second <= covered[i].first, op, "two segments share row ", covered[i].first);
  return rows;
}

RecurrenceSpace lay_out(const LinearRecurrenceArgs& a, const LinearRecurrenceGradArgs* g) {
  const auto line = [](int64_t n) { return (n + 15) / 16 * 16; };
  RecurrenceSpace s{};
  const auto take = [&](int64_t n) {
    const int64_t at = s.floats;
    s.floats += line(n);
    return at;
  };
  const int64_t B = kRecurrenceRows;
  s.k_row = line(a.key_dim), s.v_row = line(a.value_dim), s.x_row = line(a.value_dim + a.normalise);
  const int64_t by_values = a.key_dim * s.v_row, by_keys = (a.value_dim + 1) * s.k_row;
  s.state = take(g ? by_keys + std::max(by_keys, by_values) : by_values);
  s.sums = take(2 * s.k_row);
  s.q = take(B * s.k_row), s.k = take(B * s.k_row), s.v = take(B * s.x_row);
  s.out = take(B * std::max(s.k_row, s.v_row));
  const bool channels = decay_of(a) == RecurrenceDecay::channels;
  s.gates = take(B * (channels ? s.k_row : 1));
  if (!g) return s;
  int64_t rows = 0;
  for (const RecurrenceSegment& segment : a.segments) rows = std::max(rows, segment.rows);
  s.dout = take(B * s.x_row);
  if (g->dlog_decay) s.terms = take(2 * rows * (channels ? s.k_row : 1));  // f64
  if (!a.delta) return s;
  s.shifted_k = take(B * s.k_row), s.shifted_v = take(B * s.v_row);
  s.errors = take(rows * s.v_row), s.writes = take(rows * s.v_row), s.reads = take(rows * s.k_row);
  return s;
}

const char* refuse(const RecurrenceCall& call) { return refuse_f64(call.args->q); }
void reference(const RecurrenceCall& call) {
  dispatch_float(call.args->q.dtype(), [&]<class T>() { ref::linear_recurrence<T>(*call.args); });
}
void reference_grad(const RecurrenceCall& call) {
  dispatch_float(call.args->q.dtype(), [&]<class T>() { ref::linear_recurrence_grad<T>(*call.grad_args); });
}

// The vector kernels leave one number a segment and head.
void gather_constants(const LinearRecurrenceGradArgs& g, const std::vector<double>& found) {
  const int64_t heads = g.forward.heads;
  float* to = g.dlog_decay.data<float>();
  for (int64_t head = 0; head < heads; ++head) {
    double sum = g.accumulate_dlog_decay ? double(to[head]) : 0;
    for (size_t i = size_t(head); i < found.size(); i += size_t(heads)) sum += found[i];
    to[head] = float(sum);
  }
}

void run(const char* op, const LinearRecurrenceArgs& a, const LinearRecurrenceGradArgs* g) {
  std::vector<RecurrenceSpan> spans;
  int64_t rows = 0;
  for (const RecurrenceSegment& s : a.segments)
    if (s.rows > 0) {
      spans.push_back({s.row, s.rows, static_cast<float*>(s.state ? s.state.raw() : nullptr)});
      rows += s.rows;
    }
  const RecurrenceSpace space = lay_out(a, g);
  // On meta tensors too, so that the planned peak is the real one.
  const MemoryScope scope(MemoryClass::workspace);
  const bool vectors = a.q.dtype() != DType::f64 && !reference_only();
  const Tensor workspace = empty({vectors ? threads() * space.floats : 0}, DType::f32, a.q.device());
  std::vector<double> constants(spans.size() * size_t(a.heads));
  // A thread is worth some tens of thousands of elements of the state.
  const int64_t work = rows * a.key_dim * a.value_dim / std::max<int64_t>(1, int64_t(spans.size())) + 1;
  const RecurrenceCall call{.args = &a,
                            .grad_args = g,
                            .decay = decay_of(a),
                            .spans = spans.data(),
                            .count = int64_t(spans.size()),
                            .grain = (1 << 16) / work + 1,
                            .space = space,
                            .workspace = static_cast<float*>(workspace.raw()),
                            .constants = constants.data()};
  if (!g)
    return run_kernel<RecurrenceCall>(
        op, a.q.is_meta(),
        {LITHE_CPU_LIST(linear_recurrence_forward, refuse), {"ref", Isa::generic, nullptr, reference}}, call);
  run_kernel<RecurrenceCall>(
      op, a.q.is_meta(),
      {LITHE_CPU_LIST(linear_recurrence_backward, refuse), {"ref", Isa::generic, nullptr, reference_grad}}, call);
  if (vectors && !a.q.is_meta() && g->dlog_decay && call.decay == RecurrenceDecay::constant)
    gather_constants(*g, constants);
}

double state_rows(const LinearRecurrenceArgs& a) {
  double rows = 0;
  for (const RecurrenceSegment& s : a.segments) rows += double(s.rows);
  return rows * double(a.heads * recurrence_state(a.key_dim, a.value_dim, a.normalise));
}

}  // namespace

// Each row scales, adds to and reads the state; the delta rule reads it twice.
Cost cost(const LinearRecurrenceArgs& a) {
  double states = 0;
  for (const RecurrenceSegment& s : a.segments)
    if (s.state) states += 2 * double(s.state.bytes());
  return {state_rows(a) * (4.0 + (a.log_decay ? 1 : 0) + (a.delta ? 2 : 0)),
          bytes_of({a.q, a.k, a.v, a.out, a.log_decay, a.write, a.divisors}) + states};
}

// Three such passes; for the delta rule also that of the forward pass, and one for the keys that it reads by.
Cost cost(const LinearRecurrenceGradArgs& g) {
  const LinearRecurrenceArgs& a = g.forward;
  const double decay = a.log_decay ? 1 : 0;
  return {state_rows(a) * (a.delta ? 6 + 6 + 4 + 4 + 6 + 5 * decay : 3 * (4 + decay)),
          bytes_of({a.q, a.k, a.v, a.out, a.log_decay, a.write, a.divisors, g.dout, g.dq, g.dk, g.dv, g.dlog_decay,
                    g.dwrite})};
}

static Cost cost(const RecurrenceCall& call) { return call.grad_args ? cost(*call.grad_args) : cost(*call.args); }

void linear_recurrence(const LinearRecurrenceArgs& a) {
  const char* op = "linear_recurrence";
  check_args(op, a);
  run(op, a, nullptr);
}

void linear_recurrence_grad(const LinearRecurrenceGradArgs& g) {
  const char* op = "linear_recurrence_grad";
  const LinearRecurrenceArgs& a = g.forward;
  const int64_t rows = check_args(op, a);
  check(rows == a.q.rows(), op, "the segments must cover all ", a.q.rows(), " rows of q, they cover ", rows);
  check_like(op, {"dout", g.dout}, {"out", a.out});
  check_like(op, {"dq", g.dq}, {"q", a.q});
  check_like(op, {"dk", g.dk}, {"k", a.k});
  check_like(op, {"dv", g.dv}, {"v", a.v});
  if (g.dlog_decay) check_like(op, {"dlog_decay", g.dlog_decay}, {"log_decay", a.log_decay});
  if (g.dwrite) check_like(op, {"dwrite", g.dwrite}, {"write", a.write});
  run(op, a, &g);
}

}  // namespace lithe::kernels
