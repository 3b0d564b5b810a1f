#include "lithe/ops/convolution.h"

namespace lithe {
namespace {

std::vector<kernels::ConvolutionSegment> segments_of(const char* op, const Var& x, const Sequences& sequences,
                                                     const std::vector<Tensor>& states) {
  check(sequences.rows() == x.rows(), op, "x ", x.shape(), " does not fit the ", sequences.rows(), " rows of ",
        sequences.count(), " sequences");
  check(states.empty() || int64_t(states.size()) == sequences.count(), op, "one state a sequence: ", sequences.count(),
        ", got ", states.size());
  std::vector<kernels::ConvolutionSegment> segments;
  for (int64_t i = 0; i < sequences.count(); ++i)
    segments.push_back({sequences.offset(i), sequences.length(i), states.empty() ? Tensor() : states[size_t(i)]});
  return segments;
}

// The states as they are, for the gradient.
std::vector<kernels::ConvolutionSegment> kept(std::vector<kernels::ConvolutionSegment> segments) {
  for (auto& s : segments)
    if (s.state) s.state = Tape::current() ? clone(s.state) : Tensor();
  return segments;
}

}  // namespace

Var convolution(const Var& x, const Var& taps, const Sequences& sequences, int64_t ahead,
                const std::vector<Tensor>& states) {
  kernels::ConvolutionArgs args{.x = x.value(),
                                .w = taps.value(),
                                .y = empty_like(x.value()),
                                .segments = segments_of("convolution", x, sequences, states),
                                .ahead = ahead};
  auto begun = args;
  begun.segments = kept(args.segments);
  kernels::convolution(args);
  return record("convolution", {x, taps}, args.y, [begun, x = x.ref(), taps = taps.ref()](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x), dw = g.into(taps);
    kernels::convolution_grad({.forward = begun,
                               .dy = dy,
                               .dx = dx.to,
                               .dw = dw.to,
                               .accumulate_dx = dx.accumulate,
                               .accumulate_dw = dw.accumulate});
  });
}

Var unfold(const Var& x, int64_t taps, const Sequences& sequences, int64_t ahead, const std::vector<Tensor>& states) {
  const auto segments = segments_of("unfold", x, sequences, states);
  const Tensor y = empty({x.rows(), taps * x.cols()}, x.dtype(), x.device());
  kernels::unfold({.x = x.value(), .y = y, .taps = taps, .segments = segments, .ahead = ahead});
  return record("unfold", {x}, y, [x = x.ref(), taps, segments = kept(segments), ahead](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::fold(
        {.dy = dy, .dx = dx.to, .taps = taps, .segments = segments, .ahead = ahead, .accumulate = dx.accumulate});
  });
}

}  // namespace lithe
