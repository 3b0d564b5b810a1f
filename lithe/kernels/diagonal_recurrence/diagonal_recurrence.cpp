#include "lithe/kernels/diagonal_recurrence/diagonal_recurrence.h"

#include <algorithm>

#include "lithe/kernels/checks.h"
#include "lithe/kernels/diagonal_recurrence/cpu.h"
#include "lithe/kernels/diagonal_recurrence/reference.h"

namespace lithe::kernels {
namespace {

void reference(const DiagonalCall& call) {
  dispatch_float(call.args->x.dtype(), [&]<class T>() { ref::diagonal_recurrence<T>(*call.args); });
}
void reference_grad(const DiagonalCall& call) {
  dispatch_float(call.args->x.dtype(), [&]<class T>() { ref::diagonal_recurrence_grad<T>(*call.grad_args); });
}
const char* refuse(const DiagonalCall& call) { return refuse_f64(call.args->x); }

// The rows that the segments cover, each once.
int64_t check_args(const char* op, const DiagonalRecurrenceArgs& a) {
  check_rows(op, {"x", a.x});
  check_like(op, {"y", a.y}, {"x", a.x});
  const int64_t C = a.x.cols();
  const DType wide = wide_of(a.x.dtype());
  check(a.a && (a.a.shape() == Shape{C} || a.a.shape() == a.x.shape()) && a.a.dtype() == wide, op, "a must be ", wide,
        Shape{C}, " or ", a.x.shape(), " to match x, got ", a.a);
  if (a.b)
    check(a.b.shape() == Shape{C} && a.b.dtype() == wide, op, "b must be ", wide, Shape{C}, " to match x ", a.x.shape(),
          ", got ", a.b);
  check(!a.complex || C % 2 == 0, op, "complex rows have as many imaginary as real columns, got x ", a.x.shape());
  int64_t rows = 0;
  std::vector<std::pair<int64_t, int64_t>> covered;
  for (const DiagonalSegment& s : a.segments) {
    check(s.row >= 0 && s.rows >= 0 && s.row + s.rows <= a.x.rows(), op, "a segment has rows [", s.row, ",",
          s.row + s.rows, "), outside of x ", a.x.shape());
    if (s.state)
      check(s.state.shape() == Shape{C} && s.state.dtype() == wide, op, "a state must be ", wide, Shape{C}, ", got ",
            s.state.dtype(), s.state.shape());
    rows += s.rows;
    covered.push_back({s.row, s.row + s.rows});
  }
  if (!std::is_sorted(covered.begin(), covered.end())) std::sort(covered.begin(), covered.end());
  for (size_t i = 1; i < covered.size(); ++i)
    check(covered[i - 1].second <= covered[i].first, op, "two segments share row ", covered[i].first);
  return rows;
}

void run(const char* op, const DiagonalRecurrenceArgs& a, const DiagonalRecurrenceGradArgs* g, int64_t rows) {
  std::vector<DiagonalSpan> spans;
  for (const DiagonalSegment& s : a.segments)
    if (s.rows > 0) spans.push_back({s.row, s.rows, static_cast<float*>(s.state ? s.state.raw() : nullptr)});
  const DiagonalCall call{&a, g, spans.data(), int64_t(spans.size()), rows};
  if (g)
    run_kernel<DiagonalCall>(
        op, a.x.is_meta(),
        {LITHE_CPU_LIST(diagonal_recurrence_grad, refuse), {"ref", Isa::generic, nullptr, reference_grad}}, call);
  else
    run_kernel<DiagonalCall>(op, a.x.is_meta(),
                             {LITHE_CPU_LIST(diagonal_recurrence, refuse), {"ref", Isa::generic, nullptr, reference}},
                             call);
}

}  // namespace

Cost cost(const DiagonalRecurrenceArgs& a) {
  double states = 0;
  for (const DiagonalSegment& s : a.segments)
    if (s.state) states += 2 * double(s.state.bytes());
  return {(a.complex ? 4.0 : 2.0) * double(a.x.numel()), bytes_of({a.x, a.a, a.b, a.y}) + states};
}
Cost cost(const DiagonalRecurrenceGradArgs& g) {
  const DiagonalRecurrenceArgs& a = g.forward;
  return {(a.complex ? 8.0 : 4.0) * double(a.x.numel()),
          bytes_of({a.a, a.b, a.y, g.db ? a.x : Tensor(), g.dy, g.dx, g.da, g.db})};
}
static Cost cost(const DiagonalCall& call) { return call.grad_args ? cost(*call.grad_args) : cost(*call.args); }

void diagonal_recurrence(const DiagonalRecurrenceArgs& a) {
  const char* op = "diagonal_recurrence";
  run(op, a, nullptr, check_args(op, a));
}

void diagonal_recurrence_grad(const DiagonalRecurrenceGradArgs& g) {
  const char* op = "diagonal_recurrence_grad";
  const DiagonalRecurrenceArgs& a = g.forward;
  const int64_t rows = check_args(op, a);
  check(rows == a.x.rows(), op, "the segments must cover all ", a.x.rows(), " rows of x, they cover ", rows);
  check_like(op, {"dy", g.dy}, {"y", a.y});
  check_like(op, {"dx", g.dx}, {"x", a.x});
  if (g.da) check_like(op, {"da", g.da}, {"a", a.a});
  if (g.db) check_like(op, {"db", g.db}, {"b", a.b});
  run(op, a, &g, rows);
}

}  // namespace lithe::kernels
