#include "lithe/kernels/quantized_rows/quantized_rows.h"

#include "lithe/kernels/cpu/bytes.h"
#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <class T>
[[gnu::always_inline]] inline float quantize_group(const T* x, int64_t size, int8_t* to) {
  const RowStep step = step_of(x, size);
  if (step.zero) {
    for (int64_t c = 0; c < size; ++c) to[c] = 0;
    return step.size;
  }
  int64_t c = 0;
  for (; c + kLanes <= size; c += kLanes) store_rounded(to + c, load(x + c) * step.inverse, kLanes);
  if (c < size) store_rounded(to + c, load(x + c, First{int(size - c)}) * step.inverse, int(size - c));
  return step.size;
}

template <class T>
void quantize(const QuantizeRowsArgs& args) {
  const int64_t size = cols_of(args.x) / cols_of(args.scales);
  const T* x = pointer<const T>(args.x);
  auto* values = pointer<int8_t>(args.values);
  auto* scales = pointer<float>(args.scales);
  parallel(args.scales.numel(), grain_of_rows(size * int64_t(1 + sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) scales[i] = quantize_group(x + i * size, size, values + i * size);
  });
}

template <class T>
void dequantize(const DequantizeRowsArgs& args) {
  const int64_t size = cols_of(args.out) / cols_of(args.scales);
  T* out = pointer<T>(args.out);
  const auto* values = pointer<const int8_t>(args.values);
  const auto* scales = pointer<const float>(args.scales);
  parallel(args.scales.numel(), grain_of_rows(size * int64_t(1 + sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i)
      each(
          size, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            store(out + i * size + c, load(values + i * size + c, lanes) * scales[i], lanes);
          });
  });
}

}  // namespace

void quantize_rows(const QuantizeRowsArgs& args) {
  by_type(args.x.dtype(), [&]<class T>() { quantize<T>(args); });
}
void dequantize_rows(const DequantizeRowsArgs& args) {
  by_type(args.out.dtype(), [&]<class T>() { dequantize<T>(args); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
