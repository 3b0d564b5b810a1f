#include "lithe/kernels/cases.h"

#include "lithe/base/threads.h"

namespace lithe::kernels {

KernelCases::KernelCases(DType type, bool untyped, Device device) : type(type), untyped(untyped), device(device) {
  x = filled({rows, columns}, type), u = filled({rows, columns}, type);
  y = cleared({rows, columns}, type), z = cleared({rows, columns}, type);
  vector = filled({columns}, DType::f32), vector_grad = cleared({columns}, DType::f32);
  row_numbers = cleared({rows}, DType::f32), row_scales = filled({rows}, DType::f32);
  ids = ids_below(rows, rows);
}

Tensor KernelCases::filled(Shape shape, DType of) const {
  const Tensor x = empty(shape, of, device);
  if (x.is_meta()) return x;
  const auto number = [](int64_t i) { return (uint64_t(i) * 0x9e3779b97f4a7c15u) >> 40; };  // below 2^24
  parallel_for(x.numel(), 1 << 16, [&](int64_t begin, int64_t end, int) {
    if (of == DType::u8 || of == DType::i8)
      for (int64_t i = begin; i < end; ++i) static_cast<int8_t*>(x.raw())[i] = int8_t(int(number(i) % 255) - 127);
    else
      dispatch_float(of, [&]<class T>() {
        T* data = x.data<T>();
        for (int64_t i = begin; i < end; ++i) data[i] = T(float(number(i)) * 0x1p-24f - 0.5f);
      });
  });
  return x;
}

Tensor KernelCases::ids_below(int64_t count, int64_t bound) const {
  const Tensor ids = empty({count}, DType::i32, device);
  for (int64_t i = 0; i < count && !ids.is_meta(); ++i) ids.data<int32_t>()[i] = int32_t(i * 7919 % bound);
  return ids;
}

}  // namespace lithe::kernels
