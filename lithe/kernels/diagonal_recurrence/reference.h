// The specification of diagonal_recurrence.h: scalar, serial, in double.
#pragma once

#include <complex>

#include "lithe/kernels/diagonal_recurrence/diagonal_recurrence.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

using Complex = std::complex<double>;

/// Channel c of a row, which has C columns.
template <class T>
Complex channel(const T* row, int64_t c, int64_t C, bool complex) {
  return {double(row[c]), complex ? double(row[c + C / 2]) : 0};
}
template <class T>
void put_channel(T* row, int64_t c, int64_t C, bool complex, Complex x, bool accumulate) {
  put(row[c], x.real(), accumulate);
  if (complex) put(row[c + C / 2], x.imag(), accumulate);
}

template <class T>
void diagonal_recurrence(const DiagonalRecurrenceArgs& a) {
  const int64_t C = a.x.cols(), step = a.a.shape().rank() == 1 ? 0 : C;
  for (const DiagonalSegment& s : a.segments)
    for (int64_t c = 0; c < (a.complex ? C / 2 : C); ++c) {
      Wide<T>* state = data_or_null<Wide<T>>(s.state);
      Complex z = state ? channel(state, c, C, a.complex) : 0;
      const Complex b = a.b ? channel(a.b.data<Wide<T>>(), c, C, a.complex) : 1;
      for (int64_t row = s.row; row < s.row + s.rows; ++row) {
        z = channel(a.a.data<Wide<T>>() + row * step, c, C, a.complex) * z +
            b * channel(a.x.data<T>() + row * C, c, C, a.complex);
        put_channel(a.y.data<T>() + row * C, c, C, a.complex, z, false);
      }
      if (state) put_channel(state, c, C, a.complex, z, false);
    }
}

// d <- dy + conj(a after it) d;   dx = conj(b) d,   da = d conj(y before it),   db = sum d conj(x)
template <class T>
void diagonal_recurrence_grad(const DiagonalRecurrenceGradArgs& g) {
  const DiagonalRecurrenceArgs& a = g.forward;
  const bool constant = a.a.shape().rank() == 1;
  const int64_t C = a.x.cols(), step = constant ? 0 : C;
  if (g.da && constant && !g.accumulate_da) fill_zero(g.da);
  for (int64_t c = 0; c < (a.complex ? C / 2 : C); ++c) {
    Complex all = 0, written = 0;
    const Complex b = a.b ? channel(a.b.data<Wide<T>>(), c, C, a.complex) : 1;
    for (const DiagonalSegment& s : a.segments) {
      Complex d = 0;
      for (int64_t row = s.row + s.rows; row-- > s.row;) {
        if (row + 1 < s.row + s.rows) d *= std::conj(channel(a.a.data<Wide<T>>() + (row + 1) * step, c, C, a.complex));
        d += channel(g.dy.data<T>() + row * C, c, C, a.complex);
        put_channel(g.dx.data<T>() + row * C, c, C, a.complex, std::conj(b) * d, g.accumulate_dx);
        written += d * std::conj(channel(a.x.data<T>() + row * C, c, C, a.complex));
        Complex before = 0;
        if (row > s.row)
          before = channel(a.y.data<T>() + (row - 1) * C, c, C, a.complex);
        else if (s.state)
          before = channel(s.state.data<Wide<T>>(), c, C, a.complex);
        const Complex da = d * std::conj(before);
        all += da;
        if (g.da && !constant) put_channel(g.da.data<Wide<T>>() + row * C, c, C, a.complex, da, g.accumulate_da);
      }
    }
    if (g.db) put_channel(g.db.data<Wide<T>>(), c, C, a.complex, written, g.accumulate_db);
    if (g.da && constant) put_channel(g.da.data<Wide<T>>(), c, C, a.complex, all, true);
  }
}

}  // namespace lithe::kernels::ref
