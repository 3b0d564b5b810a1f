// The specification of hadamard.h: the product with the explicit matrix, in double.
#pragma once

#include <bit>
#include <vector>

#include "lithe/kernels/hadamard/hadamard.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

/// The entries of H.
class HadamardMatrix {
 public:
  explicit HadamardMatrix(int64_t order) {
    const HadamardBase& base = *hadamard_base(order);
    size_ = base.order;
    power_ = order / size_;
    for (int i = 0; i < size_; ++i)
      for (int j = 0; j < size_; ++j) base_.push_back(int8_t(base.sign(i, j)));
  }
  int operator()(int64_t i, int64_t j) const {
    const int sign = base_[size_t(i / power_ * size_ + j / power_)];
    return std::popcount(uint64_t(i % power_ & j % power_)) % 2 ? -sign : sign;
  }

 private:
  int64_t size_, power_;
  std::vector<int8_t> base_;  // [m, m]
};

// out[c] = alpha[c] scale sum_i x[i] H[i,c] + beta[c]
template <class T>
void hadamard(const HadamardArgs& a) {
  const int64_t N = a.x.rows(), C = a.x.cols();
  const HadamardMatrix sign(a.order);
  const T* x = a.x.data<T>();
  T* out = a.out.data<T>();
  const Wide<T>*alpha = data_or_null<Wide<T>>(a.alpha), *beta = data_or_null<Wide<T>>(a.beta);
  std::vector<double> row(size_t(C), 0);
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t c = 0; c < C; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < C; ++i) sum += double(x[n * C + i]) * sign(i, c);
      row[size_t(c)] = (alpha ? double(alpha[c]) : 1) * (a.scale * sum) + (beta ? double(beta[c]) : 0);
    }
    for (int64_t c = 0; c < C; ++c) out[n * C + c] = T(row[size_t(c)]);
  }
}

// dx[i] (+)= scale sum_c dout[c] alpha[c] H[i,c];  dalpha[c] += scale sum_n dout[c] sum_i x[i] H[i,c];  dbeta += sum_n
// dout
template <class T>
void hadamard_grad(const HadamardGradArgs& a) {
  const int64_t N = a.dout.rows(), C = a.dout.cols();
  const HadamardMatrix sign(a.order);
  const T *x = data_or_null<T>(a.x), *dout = a.dout.data<T>();
  T* dx = data_or_null<T>(a.dx);
  const Wide<T>* alpha = data_or_null<Wide<T>>(a.alpha);
  Wide<T>*dalpha = data_or_null<Wide<T>>(a.dalpha), *dbeta = data_or_null<Wide<T>>(a.dbeta);
  for (int64_t c = 0; c < C; ++c) {
    double product = 0, plain = 0;
    for (int64_t n = 0; n < N; ++n) {
      const double d = dout[n * C + c];
      double sum = 0;
      if (dalpha)
        for (int64_t i = 0; i < C; ++i) sum += double(x[n * C + i]) * sign(i, c);
      product += d * a.scale * sum;
      plain += d;
    }
    if (dalpha) put(dalpha[c], product, true);
    if (dbeta) put(dbeta[c], plain, true);
  }
  if (!dx) return;
  std::vector<double> row(size_t(C), 0);
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t i = 0; i < C; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < C; ++c) sum += double(dout[n * C + c]) * (alpha ? double(alpha[c]) : 1) * sign(i, c);
      row[size_t(i)] = a.scale * sum;
    }
    for (int64_t i = 0; i < C; ++i) put(dx[n * C + i], row[size_t(i)], a.accumulate);
  }
}

}  // namespace lithe::kernels::ref
