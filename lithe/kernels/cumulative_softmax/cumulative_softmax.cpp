#include "lithe/kernels/cumulative_softmax/cumulative_softmax.h"

#include <algorithm>

#include "lithe/kernels/checks.h"
#include "lithe/kernels/cumulative_softmax/cpu.h"
#include "lithe/kernels/cumulative_softmax/reference.h"

namespace lithe::kernels {
namespace {

void reference(const CumulativeTask& task) {
  dispatch_float(task.args->v.dtype(), [&]<class T>() { ref::cumulative_softmax<T>(*task.args); });
}
void reference_grad(const CumulativeTask& task) {
  dispatch_float(task.args->v.dtype(), [&]<class T>() { ref::cumulative_softmax_grad<T>(*task.grad_args); });
}
const char* refuse(const CumulativeTask& task) { return refuse_f64(task.args->v); }

void check_weights(const char* op, const Named& s, const Tensor& v) {
  const Tensor& x = s.tensor;
  check(x && x.shape().rank() == 2 && x.rows() == v.rows() && x.cols() > 0 && v.cols() % x.cols() == 0 &&
            x.dtype() == wide_of(v.dtype()),
        op, s.name, " must be ", wide_of(v.dtype()), " [N, heads] to match v ", v.shape(), ", got ", x);
}

// The rows that the segments cover, each once.
int64_t check_args(const char* op, const CumulativeSoftmaxArgs& a) {
  check_rows(op, {"v", a.v});
  check_like(op, {"out", a.out}, {"v", a.v});
  check_weights(op, {"s", a.s}, a.v);
  if (a.lse) check_like(op, {"lse", a.lse}, {"s", a.s});
  check_alias(op, {"out", a.out}, {}, {{"v", a.v}, {"s", a.s}});
  const int64_t heads = a.s.cols(), width = a.v.cols() / heads + 2;
  int64_t rows = 0;
  std::vector<std::pair<int64_t, int64_t>> covered;
  for (const CumulativeSegment& segment : a.segments) {
    check(segment.row >= 0 && segment.rows >= 0 && segment.row + segment.rows <= a.v.rows(), op, "a segment has rows [",
          segment.row, ",", segment.row + segment.rows, "), outside of v ", a.v.shape());
    if (segment.state) {
      check(a.causal, op, "a state continues causal sums only");
      check(segment.state.shape() == Shape{heads, width} && segment.state.dtype() == wide_of(a.v.dtype()), op,
            "a state must be ", wide_of(a.v.dtype()), Shape{heads, width}, ", got ", segment.state.dtype(),
            segment.state.shape());
    }
    rows += segment.rows;
    covered.push_back({segment.row, segment.row + segment.rows});
  }
  if (!std::is_sorted(covered.begin(), covered.end())) std::sort(covered.begin(), covered.end());
  for (size_t i = 1; i < covered.size(); ++i)
    check(covered[i - 1].second <= covered[i].first, op, "two segments share row ", covered[i].first);
  return rows;
}

void run(const char* op, const CumulativeSoftmaxArgs& a, const CumulativeSoftmaxGradArgs* g, int64_t rows) {
  std::vector<CumulativeSpan> spans;
  for (const CumulativeSegment& s : a.segments)
    if (s.rows > 0) spans.push_back({s.row, s.rows, static_cast<float*>(s.state ? s.state.raw() : nullptr)});
  const Tensor space = column_workspace(a.v.cols() + 2 * a.s.cols(), a.v, true);
  const CumulativeTask task{
      &a, g, spans.data(), int64_t(spans.size()), rows, static_cast<float*>(space ? space.raw() : nullptr)};
  if (g)
    run_kernel<CumulativeTask>(
        op, a.v.is_meta(),
        {LITHE_CPU_STREAMS(cumulative_softmax_grad, refuse), {"ref", Isa::generic, nullptr, reference_grad}}, task);
  else
    run_kernel<CumulativeTask>(
        op, a.v.is_meta(), {LITHE_CPU_STREAMS(cumulative_softmax, refuse), {"ref", Isa::generic, nullptr, reference}},
        task);
}

}  // namespace

// A multiply-add to shrink and one to add for each element of v, and the division.
Cost cost(const CumulativeSoftmaxArgs& a) {
  double states = 0;
  for (const CumulativeSegment& s : a.segments)
    if (s.state) states += 2 * double(s.state.bytes());
  return {5.0 * double(a.v.numel()), bytes_of({a.s, a.v, a.out, a.lse}) + states};
}

Cost cost(const CumulativeSoftmaxGradArgs& g) {
  const CumulativeSoftmaxArgs& a = g.forward;
  return {7.0 * double(a.v.numel()), bytes_of({a.s, a.v, a.out, a.lse, g.dout, g.ds, g.dv})};
}

static Cost cost(const CumulativeTask& task) { return task.grad_args ? cost(*task.grad_args) : cost(*task.args); }

void cumulative_softmax(const CumulativeSoftmaxArgs& a) {
  const char* op = "cumulative_softmax";
  run(op, a, nullptr, check_args(op, a));
}

void cumulative_softmax_grad(const CumulativeSoftmaxGradArgs& g) {
  const char* op = "cumulative_softmax_grad";
  const CumulativeSoftmaxArgs& a = g.forward;
  const int64_t rows = check_args(op, a);
  check(a.lse.defined(), op, "needs the lse that the forward pass kept");
  check(rows == a.v.rows(), op, "the segments must cover all ", a.v.rows(), " rows of v, they cover ", rows);
  for (const CumulativeSegment& s : a.segments) check(!s.state, op, "rows that continue a state have no gradient");
  check_like(op, {"dout", g.dout}, {"v", a.v});
  check_like(op, {"dv", g.dv}, {"v", a.v});
  check_like(op, {"ds", g.ds}, {"s", a.s});
  run(op, a, &g, rows);
}

}  // namespace lithe::kernels
