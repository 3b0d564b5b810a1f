// The specification of convolution.h: scalar, serial, in double.
#pragma once

#include "lithe/kernels/convolution/convolution.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

/// x[row, c] of a segment, of the state before it, or 0.
template <class T>
double row_value(const ConvolutionSegment& s, const T* x, int64_t C, int64_t taps, int64_t row, int64_t c) {
  if (row >= s.row + s.rows) return 0;
  if (row >= s.row) return double(x[row * C + c]);
  const int64_t at = taps - 1 + row - s.row;
  return s.state && at >= 0 ? double(s.state.data<Wide<T>>()[at * C + c]) : 0;
}

template <class T>
void keep_last_rows(const ConvolutionSegment& s, const T* x, int64_t C, int64_t taps) {
  if (!s.state) return;
  for (int64_t i = 0; i < taps - 1; ++i)  // from the oldest: what is read lies behind what is written
    for (int64_t c = 0; c < C; ++c)
      s.state.data<Wide<T>>()[i * C + c] = Wide<T>(row_value(s, x, C, taps, s.row + s.rows - (taps - 1) + i, c));
}

template <class T>
void convolution(const ConvolutionArgs& a) {
  const int64_t C = a.x.cols(), taps = a.w.rows();
  for (const ConvolutionSegment& s : a.segments) {
    for (int64_t t = s.row; t < s.row + s.rows; ++t)
      for (int64_t c = 0; c < C; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < taps; ++r)
          sum += double(a.w.data<Wide<T>>()[r * C + c]) * row_value(s, a.x.data<T>(), C, taps, t + a.ahead - r, c);
        a.y.data<T>()[t * C + c] = T(sum);
      }
    keep_last_rows(s, a.x.data<T>(), C, taps);
  }
}

template <class T>
void convolution_grad(const ConvolutionGradArgs& g) {
  const ConvolutionArgs& a = g.forward;
  const int64_t C = a.x.cols(), taps = a.w.rows();
  for (const ConvolutionSegment& s : a.segments)
    for (int64_t t = s.row; t < s.row + s.rows && g.dx; ++t)
      for (int64_t c = 0; c < C; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < taps; ++r) {
          const int64_t from = t - a.ahead + r;
          if (from >= s.row && from < s.row + s.rows)
            sum += double(a.w.data<Wide<T>>()[r * C + c]) * double(g.dy.data<T>()[from * C + c]);
        }
        put(g.dx.data<T>()[t * C + c], sum, g.accumulate_dx);
      }
  for (int64_t r = 0; r < taps && g.dw; ++r)
    for (int64_t c = 0; c < C; ++c) {
      double sum = 0;
      for (const ConvolutionSegment& s : a.segments)
        for (int64_t t = s.row; t < s.row + s.rows; ++t)
          sum += double(g.dy.data<T>()[t * C + c]) * row_value(s, a.x.data<T>(), C, taps, t + a.ahead - r, c);
      put(g.dw.data<Wide<T>>()[r * C + c], sum, g.accumulate_dw);
    }
}

template <class T>
void unfold(const UnfoldArgs& a) {
  const int64_t C = a.x.cols();
  for (const ConvolutionSegment& s : a.segments) {
    for (int64_t t = s.row; t < s.row + s.rows; ++t)
      for (int64_t r = 0; r < a.taps; ++r)
        for (int64_t c = 0; c < C; ++c)
          a.y.data<T>()[(t * a.taps + r) * C + c] = T(row_value(s, a.x.data<T>(), C, a.taps, t + a.ahead - r, c));
    keep_last_rows(s, a.x.data<T>(), C, a.taps);
  }
}

template <class T>
void fold(const FoldArgs& a) {
  const int64_t C = a.dx.cols();
  for (const ConvolutionSegment& s : a.segments)
    for (int64_t t = s.row; t < s.row + s.rows; ++t)
      for (int64_t c = 0; c < C; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < a.taps; ++r) {
          const int64_t from = t - a.ahead + r;
          if (from >= s.row && from < s.row + s.rows) sum += double(a.dy.data<T>()[(from * a.taps + r) * C + c]);
        }
        put(a.dx.data<T>()[t * C + c], sum, a.accumulate);
      }
}

}  // namespace lithe::kernels::ref
