#include "lithe/ops/recurrent.h"

#include <algorithm>
#include <numeric>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/embedding/embedding.h"
#include "lithe/kernels/gemm/gemm.h"

namespace lithe {
namespace {

using kernels::RecurrentCell;

/// Rows step by step: the sequences that have a step, the longest first, so that those of a step are the first of the
/// step before.
struct Steps {
  std::vector<int64_t> order;    // sequences, the longest first
  std::vector<int64_t> offsets;  // of each step's rows, and their number
  Tensor rows, back;  // i32 [N]: which row stands at a place, and at which place a row stands; none: as it is

  explicit Steps(const Sequences& s, Device device) : order(size_t(s.count())), offsets{0} {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return s.length(a) > s.length(b); });
    std::vector<int64_t> at;
    for (int64_t t = 0; order.size() && t < s.length(order[0]); ++t) {
      for (const int64_t b : order)
        if (t < s.length(b)) at.push_back(s.offset(b) + t);
      offsets.push_back(int64_t(at.size()));
    }
    if (std::is_sorted(at.begin(), at.end())) return;
    rows = empty({s.rows()}, DType::i32, device), back = empty({s.rows()}, DType::i32, device);
    for (size_t i = 0; i < at.size() && !rows.is_meta(); ++i) {
      rows.data<int32_t>()[i] = int32_t(at[i]);
      back.data<int32_t>()[at[i]] = int32_t(i);
    }
  }
  int64_t count() const { return int64_t(offsets.size()) - 1; }
  int64_t width(int64_t t) const { return offsets[size_t(t) + 1] - offsets[size_t(t)]; }
  Tensor of(const Tensor& x, int64_t t) const { return x.slice(offsets[size_t(t)], offsets[size_t(t) + 1]); }
  /// The rows of step t - 1 that go on in step t.
  Tensor before(const Tensor& x, int64_t t) const {
    return x.slice(offsets[size_t(t) - 1], offsets[size_t(t) - 1] + width(t));
  }
  static Tensor picked(const Tensor& x, const Tensor& ids) {
    const Tensor out = empty_like(x);
    kernels::gather({.table = x, .ids = ids, .out = out});
    return out;
  }
  Tensor by_steps(const Tensor& x) const { return rows ? picked(x, rows) : clone(x); }
  Tensor by_rows(const Tensor& x) const { return rows ? picked(x, back) : x; }
};

void convert_into(const Tensor& from, const Tensor& to) { kernels::add({.a = from, .out = to}); }

/// What the forward pass keeps, step by step.
struct Run {
  RecurrentCell kind;
  Tensor gates, hidden, cell, kept, first_hidden, first_cell;
  Tensor hidden_before(const Steps& s, int64_t t) const {
    return t ? s.before(hidden, t) : first_hidden.slice(0, s.width(0));
  }
  kernels::RecurrentCellArgs step(const Steps& s, int64_t t) const {
    kernels::RecurrentCellArgs args{.kind = kind, .gates = s.of(gates, t), .hidden = s.of(hidden, t)};
    if (kind == RecurrentCell::lstm) {
      args.cell = s.of(cell, t);
      args.cell_before = t ? s.before(cell, t) : first_cell.slice(0, s.width(0));
    }
    if (kind == RecurrentCell::gru) args.before = hidden_before(s, t), args.kept = s.of(kept, t);
    return args;
  }
};

Run begin(RecurrentCell kind, const Tensor& x, int64_t d, const Steps& steps, const std::vector<Tensor>& states) {
  const int64_t N = x.rows(), B = int64_t(steps.order.size());
  const DType wide = wide_of(x.dtype());
  Run run{.kind = kind, .gates = steps.by_steps(x), .hidden = empty({N, d}, x.dtype(), x.device())};
  run.first_hidden = zeros({B, d}, x.dtype(), x.device());
  if (kind == RecurrentCell::lstm) {
    run.cell = empty({N, d}, wide, x.device());
    run.first_cell = zeros({B, d}, wide, x.device());
  }
  if (kind == RecurrentCell::gru) run.kept = empty({N, d}, x.dtype(), x.device());
  for (int64_t i = 0; i < B && !states.empty(); ++i) {
    const Tensor state = states[size_t(steps.order[size_t(i)])].reshape({recurrent_state(kind, d) / d, d});
    convert_into(state.slice(0, 1), run.first_hidden.slice(i, i + 1));
    if (run.cell) convert_into(state.slice(1, 2), run.first_cell.slice(i, i + 1));
  }
  return run;
}

// The last rows of each sequence go back into its state.
void finish(const Run& run, const Steps& steps, const std::vector<Tensor>& states) {
  const int64_t d = run.hidden.cols();
  for (int64_t t = 0; t < steps.count() && !states.empty(); ++t) {
    const int64_t go_on = t + 1 < steps.count() ? steps.width(t + 1) : 0;
    for (int64_t i = go_on; i < steps.width(t); ++i) {
      const Tensor state = states[size_t(steps.order[size_t(i)])].reshape({recurrent_state(run.kind, d) / d, d});
      convert_into(steps.of(run.hidden, t).slice(i, i + 1), state.slice(0, 1));
      if (run.cell) convert_into(steps.of(run.cell, t).slice(i, i + 1), state.slice(1, 2));
    }
  }
}

/// The recurrent matrix as every step reads it: packed where the steps repay the packing. Same bits either way.
struct Recurrent {
  Tensor weight;
  kernels::PackedMatrix packed;

  Recurrent(const Tensor& w, bool transposed, int64_t steps) : weight(w) {
    if (steps < 16 || w.dtype() == DType::f64) return;
    const MemoryScope scope(MemoryClass::workspace);
    packed.format = w.dtype() == DType::f32 ? kernels::PackedFormat::f32 : kernels::PackedFormat::bf16;
    packed.name = "recurrent weight";
    packed.by_rows = transposed;
    packed.outputs = transposed ? w.rows() : w.cols(), packed.inputs = transposed ? w.cols() : w.rows();
    kernels::allocate(packed, w.device());
    kernels::pack_rows(packed, 0, w);
  }
  /// The product with b [K,N] or, transposed, [N,K], each row by itself.
  void multiply(kernels::GemmArgs args) const {
    args.rowwise = true;
    if (packed.data)
      args.packed = &packed, args.transpose_b = packed.by_rows;
    else
      args.b = weight;
    kernels::gemm(args);
  }
};

void step_forward(const Run& run, const Steps& steps, int64_t t, const Recurrent& w, const Tensor& bias) {
  auto args = run.step(steps, t);
  const bool apart = run.kind == RecurrentCell::gru;
  Tensor product = args.gates;
  if (apart) {
    const MemoryScope scope(MemoryClass::workspace);
    product = empty_like(args.gates);
    args.recurrent = product;
  }
  w.multiply({.a = run.hidden_before(steps, t), .c = product, .bias = bias, .accumulate = !apart});
  kernels::recurrent_cell(args);
}

}  // namespace

// spec: rnn.lstm | operation | gates i, f, g, o of one product a step | TB 6.4.5(2)
// spec: rnn.gru | operation | the reset gate applied to the recurrent product | TB 6.4.5(2)
// spec: rnn.elman | operation | h = tanh(x + h' W) | TB 6.4.5(2)
Var recurrent(RecurrentCell kind, const Var& x, const Var& w, const Var& bias, const Sequences& sequences,
              const std::vector<Tensor>& states) {
  const int64_t G = kernels::gates_of(kind), d = x.cols() / G;
  check(x.cols() == G * d && w.shape() == Shape{d, G * d}, "recurrent", "w must be [d, ", G, " d] to match x ",
        x.shape(), ", got ", w.shape());
  check(sequences.rows() == x.rows(), "recurrent", "x ", x.shape(), " does not fit the ", sequences.rows(), " rows of ",
        sequences.count(), " sequences");
  check(states.empty() || int64_t(states.size()) == sequences.count(), "recurrent",
        "one state a sequence: ", sequences.count(), ", got ", states.size());
  const Steps steps(sequences, x.device());
  const Run run = begin(kind, x.value(), d, steps, states);
  const Recurrent by(w.value(), false, steps.count());
  for (int64_t t = 0; t < steps.count(); ++t) step_forward(run, steps, t, by, value_or_none(bias));
  finish(run, steps, states);
  return record(
      "recurrent", {x, w, bias}, steps.by_rows(run.hidden),
      [run, steps, w, x = x.ref(), bias = bias.ref()](const Tensor& dy, Grads& g) {
        const int64_t N = run.hidden.rows(), d = run.hidden.cols();
        const bool apart = run.kind == RecurrentCell::gru;
        const Tensor dhidden = steps.by_steps(dy), dgates = empty_like(run.gates),
                     drecurrent = apart ? empty_like(run.gates) : dgates,
                     dcell = run.cell ? zeros(run.first_cell.shape(), run.cell.dtype(), run.cell.device()) : Tensor(),
                     before = empty({N, d}, run.hidden.dtype(), run.hidden.device());
        const Recurrent by(w.value(), true, steps.count());
        for (int64_t t = steps.count(); t-- > 0;) {
          kernels::recurrent_cell_grad({.forward = run.step(steps, t),
                                        .dhidden = steps.of(dhidden, t),
                                        .dgates = steps.of(dgates, t),
                                        .drecurrent = apart ? steps.of(drecurrent, t) : Tensor(),
                                        .dbefore = apart && t ? steps.before(dhidden, t) : Tensor(),
                                        .dcell = dcell ? dcell.slice(0, steps.width(t)) : Tensor()});
          kernels::add({.a = run.hidden_before(steps, t), .out = steps.of(before, t)});
          if (t)
            by.multiply(
                {.a = steps.of(drecurrent, t), .c = steps.before(dhidden, t), .transpose_b = true, .accumulate = true});
        }
        if (const auto dw = g.into(w))
          kernels::gemm({.a = before, .b = drecurrent, .c = dw.to, .transpose_a = true, .accumulate = dw.accumulate});
        if (bias) kernels::row_affine_grad({.dy = drecurrent, .dshift = g.into_zeroed(bias)});
        if (x) g.give(x, steps.by_rows(dgates));
      });
}

}  // namespace lithe
