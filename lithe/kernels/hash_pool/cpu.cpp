// A row is summed over its groups in registers, so that the rows that the groups name are never stored. The gradient
// goes channel block by channel block: a thread owns its blocks for all tokens, so that every sum runs in the order of
// the tokens, and a block of the table and of its gradient stays in the second cache. See reference.h.
#include "lithe/kernels/hash_pool/hash_pool.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kBlock = 64;  // channels of a block of the gradient

struct Groups {
  const int32_t* codes;
  int64_t width, bits, size, count;
  [[gnu::always_inline]] bool ordinary(int64_t n) const { return codes[n * width] == code_ordinary; }
  /// c_j of code n: at most 24 bits, which lie in two neighbouring ints.
  [[gnu::always_inline]] int64_t of(int64_t n, int64_t j) const {
    const auto* payload = reinterpret_cast<const uint32_t*>(codes + n * width + 1);
    const int64_t first = j * size, here = bits - first < size ? bits - first : size, at = first / 32;
    const uint64_t high = payload[at], low = at + 2 < width ? payload[at + 1] : 0;
    return int64_t((high << 32 | low) << (first % 32) >> (64 - here));
  }
};

template <class Args>
[[gnu::always_inline]] inline Groups groups(const Args& a) {
  return {pointer<int32_t>(a.codes), cols_of(a.codes), a.bits, a.group_size, rows_of(a.weights)};
}

template <class T>
void hash_pool_of(const HashPoolArgs& a) {
  const int64_t N = rows_of(a.out), D = cols_of(a.out);
  const Groups g = groups(a);
  const T* table = pointer<T>(a.table);
  const float* weights = pointer<float>(a.weights);
  T* out = pointer<T>(a.out);
  parallel(N, grain_of_rows(g.count * D * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t n = begin; n < end; ++n) {
      T* to = out + n * D;
      const int64_t count = g.ordinary(n) ? g.count : 0;
      int64_t block = 0;
      for (; block + 4 * kLanes <= D; block += 4 * kLanes) {
        Vec sum[4] = {};
        for (int64_t j = 0; j < count; ++j) {
          const T* row = table + g.of(n, j) * D + block;
          const float* weight = weights + j * D + block;
#pragma GCC unroll 4
          for (int v = 0; v < 4; ++v) sum[v] += load(weight + v * kLanes) * load(row + v * kLanes);
        }
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) store(to + block + v * kLanes, sum[v]);
      }
      each(
          D - block, [=](int64_t d, auto lanes) __attribute__((always_inline)) {
            Vec sum{};
            for (int64_t j = 0; j < count; ++j)
              sum += load(weights + j * D + block + d, lanes) * load(table + g.of(n, j) * D + block + d, lanes);
            store(to + block + d, sum, lanes);
          });
    }
  });
}

template <class T, bool wants_table, bool wants_weights>
void hash_pool_grad_of(const HashPoolGradArgs& a) {
  const int64_t N = rows_of(a.dout), D = cols_of(a.dout);
  const Groups g = groups(a);
  const T *table = pointer<T>(a.table), *dout = pointer<T>(a.dout);
  const float* weights = pointer<float>(a.weights);
  float *dtable = pointer<float>(a.dtable), *dweights = pointer<float>(a.dweights);
  parallel((D + kBlock - 1) / kBlock, grain_of_rows(N * kBlock * int64_t(sizeof(T))),
           [=](int64_t begin, int64_t end, int64_t) {
             for (int64_t block = begin; block < end; ++block) {
               const int64_t first = block * kBlock, columns = D - first < kBlock ? D - first : kBlock;
               for (int64_t n = 0; n < N; ++n) {
                 if (!g.ordinary(n)) continue;
                 const T* dy = dout + n * D + first;
                 for (int64_t j = 0; j < g.count; ++j) {
                   const int64_t row = g.of(n, j) * D + first, weight = j * D + first;
                   each(
                       columns, [=](int64_t d, auto lanes) __attribute__((always_inline)) {
                         const Vec v = load(dy + d, lanes);
                         if constexpr (wants_table)
                           store(dtable + row + d,
                                 load(dtable + row + d, lanes) + v * load(weights + weight + d, lanes), lanes);
                         if constexpr (wants_weights)
                           store(dweights + weight + d,
                                 load(dweights + weight + d, lanes) + v * load(table + row + d, lanes), lanes);
                       });
                 }
               }
             }
           });
}

}  // namespace

void hash_pool(const HashPoolArgs& a) {
  by_type(a.out.dtype(), [&]<class T>() { hash_pool_of<T>(a); });
}

void hash_pool_grad(const HashPoolGradArgs& a) {
  by_type(a.dout.dtype(), [&]<class T>() {
    if (!a.dtable)
      hash_pool_grad_of<T, false, true>(a);
    else if (!a.dweights)
      hash_pool_grad_of<T, true, false>(a);
    else
      hash_pool_grad_of<T, true, true>(a);
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
