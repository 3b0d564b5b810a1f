// Matrix products with few rows, as in decoding: bound by reading b, which is read once, in order.
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/product_vectors.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kSums = 4096;  // floats in the first-level cache beside the rows of b

// b [K,N], columns [n0, n1): the sums of a block of columns stay in cache while groups of rows of b
// stream through.
template <class Source, class Out>
void columns(const Product& p, const uint32_t* a, int64_t units, int64_t n0, int64_t n1) {
  constexpr int kGroup = 8, step = Source::kStep;
  const auto* b = static_cast<const typename Source::T*>(p.b);
  auto* c = static_cast<Out*>(p.c);
  const int64_t block = kSums / p.M / kLanes * kLanes;
  alignas(64) float sums[kSums];
  for (int64_t begin = n0; begin < n1; begin += block) {
    const int64_t end = begin + block < n1 ? begin + block : n1;
    for (int64_t m = 0; m < p.M; ++m)
      for (int64_t n = begin; n < end; n += kLanes) store(sums + m * block + n - begin, first_sum<Out>(p, m, n));
    int64_t u = 0;
    for (; u + kGroup <= units && (u + kGroup) * step <= p.K; u += kGroup) {
      const auto* rows = b + u * step * p.N;
      const int64_t whole = begin + (end - begin) / kLanes * kLanes;
      const auto pass = [&](int64_t n, int64_t cols) {
        WordVec w[kGroup];
#pragma GCC unroll 8
        for (int g = 0; g < kGroup; ++g) w[g] = Source::across(rows + g * step * p.N + n, p.N, step, cols);
        const uint32_t* x = a + u;
        float* at = sums + n - begin;
        for (int64_t m = 0; m < p.M; ++m, x += units, at += block) {
          Vec sum = load(at);
#pragma GCC unroll 8
          for (int g = 0; g < kGroup; ++g) sum = Source::multiply_add(sum, repeat(x[g]), w[g]);
          store(at, sum);
        }
      };
      for (int64_t n = begin; n < whole; n += kLanes) pass(n, kLanes);
      if (whole < end) pass(whole, end - whole);
    }
    for (; u < units; ++u)
      for (int64_t n = begin; n < end; n += kLanes) {
        const WordVec w = Source::across(b + u * step * p.N + n, p.N, p.K - u * step, end - n);
        for (int64_t m = 0; m < p.M; ++m) {
          float* at = sums + m * block + n - begin;
          store(at, Source::multiply_add(load(at), repeat(a[m * units + u]), w));
        }
      }
    for (int64_t m = 0; m < p.M; ++m)
      for (int64_t n = begin; n < end; n += kLanes)
        store_some(c + m * p.N + n, load(sums + m * block + n - begin), end - n);
  }
}

// b [N,K], its rows [n0, n1): blocks of kLanes rows are turned on the way, so that each sum runs over
// k in order. Two blocks at a time, because the sums of one wait for each other.
template <class Source, class Out>
void rows(const Product& p, const uint32_t* a, int64_t units, int64_t n0, int64_t n1) {
  constexpr int step = Source::kStep;
  const auto* b = static_cast<const typename Source::T*>(p.b);
  auto* c = static_cast<Out*>(p.c);
  Vec sums[2][kSkinnyRows];
  for (int64_t n = n0; n < n1; n += 2 * kLanes) {
    const int blocks = n + kLanes < n1 ? 2 : 1;
    for (int i = 0; i < blocks; ++i)
      for (int64_t m = 0; m < p.M; ++m) sums[i][m] = first_sum<Out>(p, m, n + i * kLanes);
    for (int64_t u = 0; u < units; u += kLanes) {
      for (int i = 0; i < blocks; ++i) {
        const int64_t at = n + i * kLanes;
        WordVec w[kLanes];
        turned<Source>(b + at * p.K + u * step, p.K, n1 - at, p.K - u * step, w);
        for (int64_t m = 0; m < p.M; ++m) {
          Vec sum = sums[i][m];
          const uint32_t* x = a + m * units + u;
#pragma GCC unroll 16
          for (int j = 0; j < kLanes; ++j) sum = Source::multiply_add(sum, repeat(x[j]), w[j]);
          sums[i][m] = sum;
        }
      }
    }
    for (int i = 0; i < blocks; ++i)
      for (int64_t m = 0; m < p.M; ++m) store_some(c + m * p.N + n + i * kLanes, sums[i][m], n1 - n - i * kLanes);
  }
}

template <class Source, class Out>
void run(const Product& p) {
  const int64_t used = (p.K + Source::kStep - 1) / Source::kStep;
  // Rows of b transposed are taken kLanes units at a time; units beyond K are 0 in a and in b.
  const int64_t units = p.transpose_b ? (used + kLanes - 1) / kLanes * kLanes : used;
  auto* a = static_cast<uint32_t*>(p.workspace);
  for (int64_t m = 0; m < p.M; ++m) {
    row_units<Source>(p, m, 0, used, a + m * units);
    std::memset(a + m * units + used, 0, size_t(units - used) * 4);
  }
  constexpr int64_t kWorth = 32768;  // multiply-adds below which a second thread costs more than it saves
  parallel((p.N + kLanes - 1) / kLanes, kWorth / (p.M * p.K * kLanes + 1) + 1,
           [&](int64_t begin, int64_t end, int64_t) {
             const int64_t n0 = begin * kLanes, n1 = end * kLanes < p.N ? end * kLanes : p.N;
             if (p.transpose_b)
               rows<Source, Out>(p, a, units, n0, n1);
             else
               columns<Source, Out>(p, a, units, n0, n1);
           });
}

}  // namespace

void skinny(const Product& p) {
  if (!p.bf16_in)
    run<PlainF32, float>(p);
  else if (p.bf16_out)
    run<Bf16, bf16>(p);
  else
    run<Bf16, float>(p);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
