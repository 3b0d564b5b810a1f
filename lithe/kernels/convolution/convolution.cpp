#include "lithe/kernels/convolution/convolution.h"

#include <algorithm>

#include "lithe/kernels/checks.h"
#include "lithe/kernels/convolution/cpu.h"
#include "lithe/kernels/convolution/reference.h"

namespace lithe::kernels {
namespace {

const char* refuse(const ConvolutionCall& call) {
  return call.dtype == DType::f64 ? "f64 runs on the reference" : nullptr;
}
void reference(const ConvolutionCall& call) { call.reference(call.args); }

// The rows that the segments cover, each once.
int64_t check_segments(const char* op, const std::vector<ConvolutionSegment>& segments, const Tensor& x, int64_t taps,
                       int64_t ahead) {
  check(taps > 0 && ahead >= 0 && ahead < taps, op, "taps must be positive and ahead in [0, taps), got ", taps, " and ",
        ahead);
  int64_t rows = 0;
  std::vector<std::pair<int64_t, int64_t>> covered;
  for (const ConvolutionSegment& s : segments) {
    check(s.row >= 0 && s.rows >= 0 && s.row + s.rows <= x.rows(), op, "a segment has rows [", s.row, ",",
          s.row + s.rows, "), outside of x ", x.shape());
    const Shape wanted{taps - 1, x.cols()};
    check(!s.state || ahead == 0, op, "a state continues causal convolutions only");
    check(!s.state || (s.state.shape() == wanted && s.state.dtype() == wide_of(x.dtype())), op, "a state must be ",
          wide_of(x.dtype()), wanted, ", got ", s.state);
    rows += s.rows;
    covered.push_back({s.row, s.row + s.rows});
  }
  if (!std::is_sorted(covered.begin(), covered.end())) std::sort(covered.begin(), covered.end());
  for (size_t i = 1; i < covered.size(); ++i)
    check(covered[i - 1].second <= covered[i].first, op, "two segments share row ", covered[i].first);
  return rows;
}

int64_t check_args(const char* op, const ConvolutionArgs& a) {
  check_rows(op, {"x", a.x});
  check_like(op, {"y", a.y}, {"x", a.x});
  check_alias(op, {"y", a.y}, {}, {{"x", a.x}});
  check(a.w && a.w.shape().rank() == 2 && a.w.cols() == a.x.cols() && a.w.dtype() == wide_of(a.x.dtype()), op,
        "w must be ", wide_of(a.x.dtype()), " [taps, C] to match x ", a.x.shape(), ", got ", a.w);
  return check_segments(op, a.segments, a.x, a.w.rows(), a.ahead);
}

std::vector<ConvolutionSpan> spans_of(const std::vector<ConvolutionSegment>& segments) {
  std::vector<ConvolutionSpan> spans;
  for (const ConvolutionSegment& s : segments)
    if (s.rows > 0) spans.push_back({s.row, s.rows, static_cast<float*>(s.state ? s.state.raw() : nullptr)});
  return spans;
}

template <class Args>
void run(const char* op, ConvolutionCall call, const std::vector<ConvolutionSegment>& segments, const Tensor& rows,
         const Args& args, void (*on_reference)(const void*)) {
  const auto spans = spans_of(segments);
  call.spans = spans.data(), call.count = int64_t(spans.size());
  for (const ConvolutionSpan& s : spans) call.rows += s.rows;
  call.dtype = rows.dtype(), call.channels = rows.cols();
  call.work = cost(args), call.args = &args, call.reference = on_reference;
  run_kernel<ConvolutionCall>(op, rows.is_meta(),
                              {LITHE_CPU_LIST(convolution, refuse), {"ref", Isa::generic, nullptr, reference}}, call);
}
void* raw(const Tensor& x) { return x ? x.raw() : nullptr; }

}  // namespace

Cost cost(const ConvolutionArgs& a) {
  return {2.0 * double(a.w.rows()) * double(a.x.numel()), bytes_of({a.x, a.w, a.y})};
}
Cost cost(const ConvolutionGradArgs& g) {
  const ConvolutionArgs& a = g.forward;
  return {2.0 * double(a.w.rows()) * double(a.x.numel()) * (g.dx.defined() + g.dw.defined()),
          bytes_of({g.dw ? a.x : Tensor(), a.w, g.dy, g.dx, g.dw})};
}
Cost cost(const UnfoldArgs& a) { return {0, bytes_of({a.x, a.y})}; }
Cost cost(const FoldArgs& a) { return {double(a.dy.numel()), bytes_of({a.dy, a.dx})}; }

void convolution(const ConvolutionArgs& a) {
  const char* op = "convolution";
  check_args(op, a);
  ConvolutionCall call{};
  call.kind = ConvolutionCall::depthwise, call.x = raw(a.x), call.y = raw(a.y);
  call.w = static_cast<const float*>(raw(a.w)), call.taps = a.w.rows(), call.ahead = a.ahead;
  run(op, call, a.segments, a.x, a, [](const void* args) {
    const auto& mine = *static_cast<const ConvolutionArgs*>(args);
    dispatch_float(mine.x.dtype(), [&]<class T>() { ref::convolution<T>(mine); });
  });
}

void convolution_grad(const ConvolutionGradArgs& g) {
  const char* op = "convolution_grad";
  const ConvolutionArgs& a = g.forward;
  const int64_t rows = check_args(op, a);
  check(rows == a.x.rows(), op, "the segments must cover all ", a.x.rows(), " rows of x, they cover ", rows);
  check_like(op, {"dy", g.dy}, {"y", a.y});
  if (g.dx) check_like(op, {"dx", g.dx}, {"x", a.x});
  if (g.dx) check_alias(op, {"dx", g.dx}, {}, {{"dy", g.dy}});
  if (g.dw) check_like(op, {"dw", g.dw}, {"w", a.w});
  ConvolutionCall call{};
  call.kind = ConvolutionCall::gradient, call.x = raw(a.x), call.dy = raw(g.dy), call.dx = raw(g.dx);
  call.w = static_cast<const float*>(raw(a.w)), call.dw = static_cast<float*>(raw(g.dw));
  call.taps = a.w.rows(), call.ahead = a.ahead;
  call.accumulate_dx = g.accumulate_dx, call.accumulate_dw = g.accumulate_dw;
  run(op, call, a.segments, a.x, g, [](const void* args) {
    const auto& mine = *static_cast<const ConvolutionGradArgs*>(args);
    dispatch_float(mine.forward.x.dtype(), [&]<class T>() { ref::convolution_grad<T>(mine); });
  });
}

void unfold(const UnfoldArgs& a) {
  const char* op = "unfold";
  check_rows(op, {"x", a.x});
  check_segments(op, a.segments, a.x, a.taps, a.ahead);
  check(a.y && a.y.shape() == Shape{a.x.rows(), a.taps * a.x.cols()} && a.y.dtype() == a.x.dtype(), op, "y must be ",
        a.x.dtype(), Shape{a.x.rows(), a.taps * a.x.cols()}, ", got ", a.y);
  ConvolutionCall call{};
  call.kind = ConvolutionCall::unfold, call.x = raw(a.x), call.y = raw(a.y), call.taps = a.taps, call.ahead = a.ahead;
  run(op, call, a.segments, a.x, a, [](const void* args) {
    const auto& mine = *static_cast<const UnfoldArgs*>(args);
    dispatch_float(mine.x.dtype(), [&]<class T>() { ref::unfold<T>(mine); });
  });
}

void fold(const FoldArgs& a) {
  const char* op = "fold";
  check_rows(op, {"dx", a.dx});
  const int64_t rows = check_segments(op, a.segments, a.dx, a.taps, a.ahead);
  check(rows == a.dx.rows(), op, "the segments must cover all ", a.dx.rows(), " rows of dx, they cover ", rows);
  check(a.dy && a.dy.shape() == Shape{a.dx.rows(), a.taps * a.dx.cols()} && a.dy.dtype() == a.dx.dtype(), op,
        "dy must be ", a.dx.dtype(), Shape{a.dx.rows(), a.taps * a.dx.cols()}, ", got ", a.dy);
  ConvolutionCall call{};
  call.kind = ConvolutionCall::fold, call.dy = raw(a.dy), call.dx = raw(a.dx), call.taps = a.taps;
  call.ahead = a.ahead, call.accumulate_dx = a.accumulate;
  run(op, call, a.segments, a.dx, a, [](const void* args) {
    const auto& mine = *static_cast<const FoldArgs*>(args);
    dispatch_float(mine.dx.dtype(), [&]<class T>() { ref::fold<T>(mine); });
  });
}

}  // namespace lithe::kernels
