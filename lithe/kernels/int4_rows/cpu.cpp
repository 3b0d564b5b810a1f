#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/int4_rows/cpu_widen.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// Cut to the upper half of its bits, toward -infinity (up: +infinity).
[[gnu::always_inline]] inline bf16 cut(float x, bool up) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  bf16 out;
  out.bits = uint16_t((bits >> 16) + ((bits & 0xffff) != 0 && (x < 0) != up));
  return out;
}

/// Both halves of a group beside each other, its first number behind what is missing.
template <class T>
[[gnu::always_inline]] inline void open_group(const T* x, int64_t n, int64_t half, float* to) {
  if (n == Int4Rows::kGroup) {
    for (int64_t c = 0; c < n; c += kLanes) store(to + c, load(x + c));
    return;
  }
  for (int64_t c = 0; c < Int4Rows::kGroup; ++c) to[c] = float(x[0]);
  for (int64_t c = 0; c < n; ++c) to[c < half ? c : Int4Rows::kGroup / 2 + c - half] = float(x[c]);
}

template <class T>
[[gnu::always_inline]] inline void quantize_group(const T* x, int64_t n, uint8_t* codes, bf16* scales) {
  constexpr int64_t kHalf = Int4Rows::kGroup / 2;
  const int64_t half = (n + 1) / 2;
  float numbers[Int4Rows::kGroup];
  open_group(x, n, half, numbers);
  Vec least = load(numbers), most = least;
  IntVec bits{};
  for (int64_t c = 0; c < Int4Rows::kGroup; c += kLanes) {
    const Vec v = load(numbers + c);
    const IntVec magnitudes = as_ints(abs(v));  // their order is that of the numbers
    bits = magnitudes > bits ? magnitudes : bits;
    least = min(least, v), most = max(most, v);
  }
  float low = least[0], high = most[0];
  int32_t largest = 0;
  for (int i = 0; i < kLanes; ++i) {
    low = least[i] < low ? least[i] : low;
    high = most[i] > high ? most[i] : high;
    largest = bits[i] > largest ? bits[i] : largest;
  }
  bf16 first = cut(low == 0 ? 0 : low, false), step;
  const float span = high - float(first);
  float inverse = 0;
  if (largest >= 0x7f800000 || (__builtin_bit_cast(int32_t, span) & 0x7fffffff) >= 0x7f800000) {
    first.bits = step.bits = 0x7fc0;
  } else {
    step = cut(span < 0x1p-100f ? 0 : span / 15, true);
    if (float(step) > 0) inverse = 1 / float(step);
  }
  scales[0] = first, scales[1] = step;
  uint8_t pairs[kHalf] = {};
  for (int64_t c = 0; c < half && inverse > 0; c += kLanes) {
    const auto code = [&](const float* of) __attribute__((always_inline)) {
      return (__builtin_convertvector((load(of + c) - float(first)) * inverse * 2.0f, IntVec) + 1) >> 1;
    };
    const PairVec both = __builtin_convertvector(code(numbers) | code(numbers + kHalf) << 4, PairVec);
    __builtin_memcpy(pairs + c, &both, sizeof both);
  }
  if (n % 2) pairs[half - 1] &= 15;
  for (int64_t i = 0; i < half; ++i) codes[i] = pairs[i];
}

template <class T>
void quantize(const QuantizeInt4RowsArgs& args) {
  const Int4Rows of{args.heads, cols_of(args.x) / args.heads};
  const int64_t bytes = of.head_bytes(), scale_row = 2 * of.head_groups();
  const T* x = pointer<const T>(args.x);
  auto* codes = pointer<uint8_t>(args.codes);
  auto* scales = pointer<bf16>(args.scales);
  parallel(rows_of(args.x) * of.heads, grain_of_rows(of.size * int64_t(1 + sizeof(T))),
           [=](int64_t begin, int64_t end, int64_t) {
             for (int64_t head = begin; head < end; ++head)
               for (int64_t at = 0; at < of.size; at += Int4Rows::kGroup)
                 quantize_group(x + head * of.size + at,
                                of.size - at < Int4Rows::kGroup ? of.size - at : Int4Rows::kGroup,
                                codes + head * bytes + at / 2, scales + head * scale_row + 2 * (at / Int4Rows::kGroup));
           });
}

template <class T>
void dequantize(const DequantizeInt4RowsArgs& args) {
  const Int4Rows of{args.heads, cols_of(args.out) / args.heads};
  const int64_t bytes = of.head_bytes(), scale_row = 2 * of.head_groups();
  T* out = pointer<T>(args.out);
  const auto* codes = pointer<const uint8_t>(args.codes);
  const auto* scales = pointer<const bf16>(args.scales);
  parallel(rows_of(args.out) * of.heads, grain_of_rows(of.size * int64_t(1 + sizeof(T))),
           [=](int64_t begin, int64_t end, int64_t) {
             for (int64_t head = begin; head < end; ++head)
               widen_int4_head(codes + head * bytes, scales + head * scale_row, of.size, out + head * of.size);
           });
}

}  // namespace

void quantize_int4_rows(const QuantizeInt4RowsArgs& args) {
  by_type(args.x.dtype(), [&]<class T>() { quantize<T>(args); });
}
void dequantize_int4_rows(const DequantizeInt4RowsArgs& args) {
  by_type(args.out.dtype(), [&]<class T>() { dequantize<T>(args); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
