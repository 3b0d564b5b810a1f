// The specification of lithe/kernels/spread/spread.h. W is the type of weights: double for double, else float.
#pragma once

#include <cstdint>

namespace lithe::kernels::ref {

// out[n,j,c] = x[n,c] scale[j,c] + shift[j,c]
template <class T, class W>
void spread(const T* x, const W* scale, const W* shift, T* out, int64_t rows, int64_t heads, int64_t cols) {
  for (int64_t n = 0; n < rows; ++n, x += cols)
    for (int64_t j = 0; j < heads; ++j, out += cols)
      for (int64_t c = 0; c < cols; ++c)
        out[c] = T(W(x[c]) * (scale ? scale[j * cols + c] : W(1)) + (shift ? shift[j * cols + c] : W(0)));
}

// dx (+)= sum_j dout scale;  dscale += sum_n x dout;  dshift += sum_n dout
template <class T, class W>
void spread_grad(const T* x, const W* scale, const T* dout, T* dx, W* dscale, W* dshift, int64_t rows, int64_t heads,
                 int64_t cols, bool accumulate) {
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t c = 0; c < cols; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < heads; ++j) {
        const double d = double(dout[(n * heads + j) * cols + c]);
        sum += d * (scale ? double(scale[j * cols + c]) : 1.0);
        if (dscale) dscale[j * cols + c] += W(double(x[n * cols + c]) * d);
        if (dshift) dshift[j * cols + c] += W(d);
      }
      if (dx) dx[n * cols + c] = T(sum + (accumulate ? double(dx[n * cols + c]) : 0.0));
    }
  }
}

}  // namespace lithe::kernels::ref
