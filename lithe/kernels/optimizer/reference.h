// The specification of optimizer.h: scalar, serial, in double.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

// Codes of a block's numbers over its largest (Dettmers et al. 2022, dynamic quantisation, here with as many negative
// numbers as positive): `bits` of magnitude, 7 beside the sign of m and 8 for v. Code 0 is 0, the codes from 2^k to
// 2^(k+1) - 1 divide the decade that ends in 10^(k+1-bits) into equal steps, and the last one is 1:
//   code 2^k + j, 0 <= j < 2^k:  10^(k+1-bits) (0.1 + 0.9 (j+1) / 2^k)
inline double state_value(int code, int bits) {
  if (code == 0) return 0;
  const int k = std::ilogb(code), j = code - (1 << k);
  return std::pow(10.0, k + 1 - bits) * (0.1 + 0.9 * (j + 1) / (1 << k));
}
// The code whose value is nearest to x in [0, 1].
inline int state_code(double x, int bits) {
  int low = 0, high = (1 << bits) - 1;  // state_value rises with the code
  while (low < high) {
    const int middle = (low + high) / 2;
    if (x > 0.5 * (state_value(middle, bits) + state_value(middle + 1, bits)))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// One of the moments, whichever way it is stored.
template <class T>
struct Moment {
  const Tensor &values, &scale;
  const bool is_signed;

  double read(int64_t i) const {
    if (!scale) return double(values.data<T>()[i]);
    const int code = is_signed ? int(values.data<int8_t>()[i]) : int(values.data<uint8_t>()[i]);
    return double(scale.data<float>()[i / kStateBlock]) *
           std::copysign(state_value(std::abs(code), 8 - is_signed), code);
  }
  void write(int64_t begin, const std::vector<T>& block) const {
    if (!scale) return void(std::copy(block.begin(), block.end(), values.data<T>() + begin));
    double largest = 0;
    for (const T x : block) largest = std::max(largest, std::abs(double(x)));
    scale.data<float>()[begin / kStateBlock] = float(largest);
    for (size_t i = 0; i < block.size(); ++i) {
      const double x = double(block[i]);
      const int code = largest > 0 ? state_code(std::abs(x) / largest, 8 - is_signed) : 0;
      if (is_signed)
        values.data<int8_t>()[begin + int64_t(i)] = int8_t(x < 0 ? -code : code);
      else
        values.data<uint8_t>()[begin + int64_t(i)] = uint8_t(std::max(code, int(x > 0)));
    }
  }
};

// The bits of an f32 number are those of high << 16, plus rest.
inline float joined(bf16 high, int16_t rest) {
  return std::bit_cast<float>((uint32_t(high.bits) << 16) + uint32_t(int32_t(rest)));
}
inline void split(float x, bf16& high, int16_t& rest) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  high.bits = uint16_t((bits + 0x8000) >> 16);
  rest = int16_t(uint16_t(bits));
}
inline int16_t* rest_of(const Tensor& rest) { return static_cast<int16_t*>(rest.raw()); }

// g = gradient_scale gradient;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
// param -= lr (m / (1-b1^step) / (sqrt(v / (1-b2^step)) + eps) + weight_decay param)
template <class T>
void adamw(const AdamWArgs& a) {
  const bool is_split = a.rest.defined();
  T* param = is_split ? nullptr : a.param.data<T>();
  bf16* high = is_split ? a.param.data<bf16>() : nullptr;
  int16_t* rest = rest_of(a.rest);
  const Moment<T> m{a.m, a.m_scale, true}, v{a.v, a.v_scale, false};
  bf16* shadow = data_or_null<bf16>(a.shadow);
  const double unbias1 = 1 - std::pow(a.beta1, double(a.step)), unbias2 = 1 - std::pow(a.beta2, double(a.step));
  const int64_t n = a.param.numel();
  std::vector<T> mean, square;  // of a block
  for (int64_t begin = 0; begin < n; begin += kStateBlock) {
    const int64_t end = std::min(n, begin + kStateBlock);
    mean.resize(size_t(end - begin));
    square.resize(mean.size());
    for (int64_t i = begin; i < end; ++i) {
      const double g = a.gradient_scale * double(a.gradient.data<T>()[i]);
      const double mi = double(mean[size_t(i - begin)] = T(a.beta1 * m.read(i) + (1 - a.beta1) * g)),
                   vi = double(square[size_t(i - begin)] = T(a.beta2 * v.read(i) + (1 - a.beta2) * g * g));
      const double step = mi / unbias1 / (std::sqrt(vi / unbias2) + a.eps);
      const double before = is_split ? double(joined(high[i], rest[i])) : double(param[i]);
      const T after = T(before - a.lr * (step + a.weight_decay * before));
      if (is_split)
        split(float(after), high[i], rest[i]);
      else
        param[i] = after;
      if (shadow) shadow[i] = bf16(float(after));
      if (a.clear) a.gradient.data<T>()[i] = 0;
    }
    m.write(begin, mean);
    v.write(begin, square);
  }
}

// blocks[b] = sum x[i]^2 over the i in [b size, (b+1) size)
template <class T>
void sum_of_squares(const T* x, int64_t n, int64_t size, double* blocks) {
  for (int64_t begin = 0; begin < n; begin += size) {
    double block = 0;
    for (int64_t i = begin; i < std::min(n, begin + size); ++i) block += double(x[i]) * double(x[i]);
    *blocks++ = block;
  }
}

template <class T>
bool all_finite(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(double(x[i]))) return false;
  return true;
}

}  // namespace lithe::kernels::ref
