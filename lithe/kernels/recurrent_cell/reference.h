// The specification of recurrent_cell.h: scalar, serial, in double.
#pragma once

#include <cmath>

#include "lithe/kernels/recurrent_cell/recurrent_cell.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

template <class T>
void recurrent_cell(const RecurrentCellArgs& a) {
  const int64_t d = a.hidden.cols(), G = gates_of(a.kind);
  for (int64_t i = 0; i < a.hidden.numel(); ++i) {
    T* x = a.gates.data<T>() + i / d * G * d + i % d;
    T& h = a.hidden.data<T>()[i];
    switch (a.kind) {
      case RecurrentCell::linear: h = x[0]; break;
      case RecurrentCell::elman: h = x[0] = T(std::tanh(double(x[0]))); break;
      case RecurrentCell::lstm: {
        const double in = logistic(double(x[0])), keep = logistic(double(x[d])), g = std::tanh(double(x[2 * d])),
                     out = logistic(double(x[3 * d])), c = keep * double(a.cell_before.data<Wide<T>>()[i]) + in * g;
        a.cell.data<Wide<T>>()[i] = Wide<T>(c);
        h = T(out * std::tanh(c));
        x[0] = T(in), x[d] = T(keep), x[2 * d] = T(g), x[3 * d] = T(out);
        break;
      }
      case RecurrentCell::gru: {
        const T* y = a.recurrent.data<T>() + i / d * G * d + i % d;
        const double r = logistic(double(x[0]) + double(y[0])), z = logistic(double(x[d]) + double(y[d])),
                     n = std::tanh(double(x[2 * d]) + r * double(y[2 * d]));
        a.kept.data<T>()[i] = y[2 * d];
        h = T((1 - z) * n + z * double(a.before.data<T>()[i]));
        x[0] = T(r), x[d] = T(z), x[2 * d] = T(n);
      }
    }
  }
}

template <class T>
void recurrent_cell_grad(const RecurrentCellGradArgs& g) {
  const RecurrentCellArgs& a = g.forward;
  const int64_t d = a.hidden.cols(), G = gates_of(a.kind);
  for (int64_t i = 0; i < a.hidden.numel(); ++i) {
    const int64_t at = i / d * G * d + i % d;
    const T* x = a.gates.data<T>() + at;
    T* dx = g.dgates.data<T>() + at;
    const double dh = double(g.dhidden.data<T>()[i]);
    switch (a.kind) {
      case RecurrentCell::linear: dx[0] = T(dh); break;
      case RecurrentCell::elman: dx[0] = T(dh * (1 - double(x[0]) * double(x[0]))); break;
      case RecurrentCell::lstm: {
        const double in = double(x[0]), keep = double(x[d]), c = double(x[2 * d]), out = double(x[3 * d]);
        const double t = std::tanh(double(a.cell.data<Wide<T>>()[i]));
        Wide<T>& carried = g.dcell.data<Wide<T>>()[i];
        const double dc = double(carried) + dh * out * (1 - t * t);
        dx[0] = T(dc * c * in * (1 - in));
        dx[d] = T(dc * double(a.cell_before.data<Wide<T>>()[i]) * keep * (1 - keep));
        dx[2 * d] = T(dc * in * (1 - c * c));
        dx[3 * d] = T(dh * t * out * (1 - out));
        carried = Wide<T>(dc * keep);
        break;
      }
      case RecurrentCell::gru: {
        T* dy = g.drecurrent.data<T>() + at;
        const double r = double(x[0]), z = double(x[d]), n = double(x[2 * d]), h = double(a.before.data<T>()[i]);
        const double dn = dh * (1 - z) * (1 - n * n);
        dx[2 * d] = T(dn);
        dy[2 * d] = T(dn * r);
        dx[0] = dy[0] = T(dn * double(a.kept.data<T>()[i]) * r * (1 - r));
        dx[d] = dy[d] = T(dh * (h - n) * z * (1 - z));
        if (g.dbefore) put(g.dbefore.data<T>()[i], dh * z, true);
      }
    }
  }
}

}  // namespace lithe::kernels::ref
