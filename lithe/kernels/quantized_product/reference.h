// The specification of integer products: scalar, serial, exact integer sums.
#pragma once

#include <cmath>
#include <vector>

#include "lithe/kernels/quantized_product/quantized_product.h"

namespace lithe::kernels::ref {

/// Q(x) = round(x / s), halves away from zero, s = max|x| / 127 (spec hpc.ptq, symmetric). Returns s.
template <class T>
float quantize_row(const T* x, int64_t K, int8_t* q) {
  float most = 0;
  bool finite = true;
  for (int64_t k = 0; k < K; ++k) {
    most = std::max(most, std::abs(float(x[k])));
    finite = finite && std::isfinite(float(x[k]));
  }
  const bool zero = !finite || most < 0x1p-100f;
  const float inverse = zero ? 0 : 127 / most;
  for (int64_t k = 0; k < K; ++k) q[k] = zero ? int8_t(0) : int8_t(std::round(double(x[k]) * double(inverse)));
  return !finite ? std::nanf("") : zero ? 0 : most / 127;
}

// y[m,n] = s[m] sum_g (scale[n,g] sum_{k in g} q[m,k] w[n,k] - minimum[n,g] sum_{k in g} q[m,k]) + bias[n]
template <class T, class Out>
void quantized_product(const QuantizedProductArgs& args) {
  const PackedMatrix& w = *args.w;
  const int64_t M = args.x.rows(), K = w.inputs, group = w.group ? w.group : K;
  std::vector<int8_t> q(static_cast<size_t>(K));
  for (int64_t m = 0; m < M; ++m) {
    const double step = quantize_row(args.x.data<T>() + m * K, K, q.data());
    for (int64_t n = 0; n < w.outputs; ++n) {
      double sum = 0;
      for (int64_t g = 0; g * group < K; ++g) {
        int32_t exact = 0, of_row = 0;
        for (int64_t k = g * group; k < std::min(K, (g + 1) * group); ++k) {
          exact += q[size_t(k)] * quantized_value(w, n, k);
          of_row += q[size_t(k)];
        }
        sum += double(exact) * double(quantized_scale(w, n, g * group)) -
               double(of_row) * double(quantized_minimum(w, n, g * group));
      }
      args.y.data<Out>()[m * w.outputs + n] =
          Out(float(step * sum + (args.bias ? double(args.bias.data<float>()[n]) : 0)));
    }
  }
}

template <class Out>
void packed_gather(const PackedGatherArgs& args) {
  const PackedMatrix& t = *args.table;
  const Tensor numbers = integers(t.format) ? Tensor() : unpacked(t);
  for (int64_t i = 0; i < args.ids.numel(); ++i)
    for (int64_t k = 0; k < t.inputs; ++k) {
      const int64_t n = args.ids.data<int32_t>()[i];
      if (n < 0) {
        args.out.data<Out>()[i * t.inputs + k] = Out(0.0f);
        continue;
      }
      if (numbers) {
        args.out.data<Out>()[i * t.inputs + k] = Out(float(args.scale * value_at(numbers, n * t.inputs + k)));
        continue;
      }
      args.out.data<Out>()[i * t.inputs + k] =
          Out(float(args.scale * (double(quantized_scale(t, n, k)) * quantized_value(t, n, k) -
                                  double(quantized_minimum(t, n, k)))));
    }
}

}  // namespace lithe::kernels::ref
