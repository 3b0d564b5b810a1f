// The specification of int4_rows.h: scalar, serial.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "lithe/kernels/int4_rows/int4_rows.h"

namespace lithe::kernels::ref {

/// The next bf16 that is not above x (not below it, where `up`).
inline bf16 to_bf16(float x, bool up) {
  const auto bits = std::bit_cast<uint32_t>(x);
  bf16 out;
  out.bits = uint16_t(bits >> 16);
  if ((bits & 0xffff) && (x < 0) != up) ++out.bits;  // away from zero
  return out;
}

/// The lowest number and the step of a group of n numbers.
struct Int4Step {
  bf16 low, step;
  template <class T>
  Int4Step(const T* x, int64_t n) {
    float least = float(x[0]), most = least;
    bool finite = true;
    for (int64_t c = 0; c < n; ++c) {
      const auto number = float(x[c]);
      finite = finite && std::isfinite(number);
      least = std::min(least, number), most = std::max(most, number);
    }
    low = to_bf16(least == 0 ? 0 : least, false);
    const float span = most - float(low);
    if (!finite || !std::isfinite(span))
      low = step = bf16(std::numeric_limits<float>::quiet_NaN());
    else
      step = to_bf16(span < 0x1p-100f ? 0 : span / 15, true);
  }
  float inverse() const { return float(step) > 0 ? 1 / float(step) : 0; }
};

/// Calls f(first channel of all, channels, first byte, scales) for each group of all rows.
template <class F>
void each_int4_group(int64_t rows, const Int4Rows& of, F f) {
  for (int64_t head = 0; head < rows * of.heads; ++head)
    for (int64_t at = 0; at < of.size; at += Int4Rows::kGroup)
      f(head * of.size + at, std::min(Int4Rows::kGroup, of.size - at), head * of.head_bytes() + at / 2,
        2 * (head * of.head_groups() + at / Int4Rows::kGroup));
}

template <class T>
void quantize_int4_rows(const QuantizeInt4RowsArgs& args) {
  const Int4Rows of{args.heads, args.x.cols() / args.heads};
  each_int4_group(args.x.rows(), of, [&](int64_t first, int64_t n, int64_t byte, int64_t scale) {
    const T* x = args.x.data<T>() + first;
    const Int4Step step(x, n);
    args.scales.data<bf16>()[scale] = step.low, args.scales.data<bf16>()[scale + 1] = step.step;
    const float inverse = step.inverse();
    // Twice the quotient, cut off, plus one, halved: no sum that a multiplication could be fused with.
    const auto code = [&](int64_t c) {
      return inverse > 0 && c < n ? (int(2 * ((float(x[c]) - float(step.low)) * inverse)) + 1) >> 1 : 0;
    };
    const int64_t half = (n + 1) / 2;
    for (int64_t i = 0; i < half; ++i) args.codes.data<uint8_t>()[byte + i] = uint8_t(code(i) | code(i + half) << 4);
  });
}

template <class T>
void dequantize_int4_rows(const DequantizeInt4RowsArgs& args) {
  const Int4Rows of{args.heads, args.out.cols() / args.heads};
  each_int4_group(args.out.rows(), of, [&](int64_t first, int64_t n, int64_t byte, int64_t scale) {
    const float low = args.scales.data<bf16>()[scale], step = args.scales.data<bf16>()[scale + 1];
    const int64_t half = (n + 1) / 2;
    for (int64_t c = 0; c < n; ++c) {
      const int pair = args.codes.data<uint8_t>()[byte + c % half];
      args.out.data<T>()[first + c] = T(low + step * float(c < half ? pair & 15 : pair >> 4));  // the product is exact
    }
  });
}

}  // namespace lithe::kernels::ref
