// A vector of bits is an int shifted left by its lane numbers, whose signs choose between two values. See
// reference.h.
#include "lithe/kernels/token_bits/token_bits.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

[[gnu::always_inline]] inline int64_t ones_of(const uint32_t* payload, int64_t bits) {
  int64_t ones = 0;
  for (int64_t i = 0; i < bits / 32; ++i) ones += __builtin_popcount(payload[i]);
  return bits % 32 ? ones + __builtin_popcount(payload[bits / 32] >> (32 - bits % 32)) : ones;
}

template <class T>
void token_bits_of(const TokenBitsArgs& a) {
  const int64_t N = rows_of(a.codes), width = cols_of(a.codes), bits = a.bits, columns = cols_of(a.out);
  const int32_t* codes = pointer<int32_t>(a.codes);
  T* rows = pointer<T>(a.out);
  const BitForm form = a.form;
  const double factor = a.scale;
  parallel(N, grain_of_rows(columns * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t n = begin; n < end; ++n) {
      const int32_t* code = codes + n * width;
      T* out = rows + n * columns;
      const bool ordinary = code[0] == code_ordinary;
      const auto* payload = reinterpret_cast<const uint32_t*>(code + 1);
      float zero = 0, one = ordinary ? float(factor) : 0;
      if (ordinary && form == BitForm::standardized) {
        const auto ones = double(ones_of(payload, bits));
        const double mean = ones / double(bits), squares = ones * (1 - mean),
                     scale = squares > 1e-16 ? factor / __builtin_sqrt(squares) : factor * 1e8;
        zero = float(-mean * scale);
        one = float((1 - mean) * scale);
      }
      each(bits, [=](int64_t j, auto lanes) {
        const WordVec word = payload[j / 32] - WordVec{};
        const IntVec shifted = IntVec(word << WordVec(lane_numbers() + int32_t(j % 32)));
        const Vec bit = shifted < 0 ? splat(one) : splat(zero);
        if (form != BitForm::one_hot) return store(out + j, bit, lanes);
        store(out + j, splat(one) - bit, lanes);
        store(out + bits + j, bit, lanes);
      });
    }
  });
}

}  // namespace

void token_bits(const TokenBitsArgs& a) {
  by_type(a.out.dtype(), [&]<class T>() { token_bits_of<T>(a); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
