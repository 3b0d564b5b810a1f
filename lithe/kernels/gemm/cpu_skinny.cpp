// Matrix products with few rows, as in decoding: bound by reading b, which is read once, in order.
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/gemm/cpu_vectors.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kSums = 4096;  // floats in the first-level cache beside the rows of b
constexpr int64_t kAhead = 1024, kAheadRows = 512, kAheadPanel = 8192, kAheadStream = 2048;  // bytes
constexpr int64_t kWorth = 32768;  // multiply-adds below which a second thread costs more than it saves
constexpr int kVectors = 2, kPanel = kVectors * kLanes;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kGroup = 8;  // units whose words of a panel fit the registers
#else
constexpr int kGroup = 4;
#endif
constexpr int kTurnedGroup = kGroup < kLanes ? kGroup : kLanes;  // of units that are turned kLanes at a time

// Of a packed b its whole panel, where the registers have room: its lines are then read in order.
constexpr int kPackedVectors = kPanelWords / kLanes < 4 ? int(kPanelWords / kLanes) : 4;
constexpr int kPackedGroup = kGroup * kVectors / kPackedVectors;

// sums [M, stride] of V vectors of columns += G units of a times w, which every row shares.
template <class Source, int G, int V>
[[gnu::always_inline]] inline void multiply(int64_t M, const uint32_t* a, int64_t units, const WordVec (&w)[G][V],
                                            float* sums, int64_t stride) {
  for (int64_t m = 0; m < M; ++m, a += units, sums += stride) {
    Vec sum[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[v] = load(sums + v * kLanes);
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      const WordVec x = repeat(a[g]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[v] = Source::multiply_add(sum[v], x, w[g][v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(sums + v * kLanes, sum[v]);
  }
}

// b [K,N], columns [n0, n1): the sums of a block of columns stay in cache while groups of G units of b stream through.
// Many short streams are fetched ahead: along the rows, then from the next group's; the processor does as well with
// few.
template <class Source, class Out, int G, bool kFetch>
void columns(const Product& p, const uint32_t* a, int64_t units, int64_t n0, int64_t n1) {
  constexpr int step = Source::kStep, rows = G * step;
  using T = typename Source::T;
  constexpr int64_t ahead = kAhead / int64_t(sizeof(T));
  const T* b = static_cast<const T*>(p.b);
  auto* c = static_cast<Out*>(p.c);
  const int64_t block = kSums / p.M / kPanel * kPanel;
  alignas(64) float sums[kSums];
  for (int64_t begin = n0; begin < n1; begin += block) {
    const int64_t end = begin + block < n1 ? begin + block : n1;
    for (int64_t m = 0; m < p.M; ++m)
      for (int64_t n = begin; n < end; n += kLanes) store(sums + m * block + n - begin, first_sum<Out>(p, m, n));
    int64_t u = 0;
    for (; (u + G) * step <= p.K; u += G) {
      const T* row = b + u * step * p.N;
      const int64_t whole = begin + (end - begin) / kPanel * kPanel;
      const auto pass = [&](int64_t n, int64_t cols) __attribute__((always_inline)) {
        const int64_t later = n + (ahead < end - begin ? ahead : end - begin);
        const T* next = row + later;
        if (later >= end) next += (u + 2 * G) * step <= p.K ? rows * p.N - (end - begin) : n - later;
        WordVec w[G][kVectors];
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) {
#pragma GCC unroll 2
          for (int k = 0; kFetch && k < step; ++k)
#pragma GCC unroll 2
            for (int64_t i = 0; i < kPanel; i += 64 / int64_t(sizeof(T)))
              __builtin_prefetch(next + (g * step + k) * p.N + i, 0, 3);
          across_panel<Source>(row + g * step * p.N + n, p.N, step, cols, w[g]);
        }
        multiply<Source>(p.M, a + u, units, w, sums + n - begin, block);
      };
      for (int64_t n = begin; n < whole; n += kPanel) pass(n, kPanel);
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

// The sums [M, V vectors] of the columns from n.
template <class Out, int V>
void start(const Product& p, int64_t n, float* sums) {
  for (int64_t m = 0; m < p.M; ++m)
    for (int v = 0; v < V; ++v, sums += kLanes)
      store(sums, n + v * kLanes < p.N ? first_sum<Out>(p, m, n + v * kLanes) : Vec{});
}
template <class Out, int V>
void finish(const Product& p, int64_t n, const float* sums) {
  auto* c = static_cast<Out*>(p.c);
  for (int64_t m = 0; m < p.M; ++m)
    for (int v = 0; v < V; ++v, sums += kLanes)
      if (n + v * kLanes < p.N) store_some(c + m * p.N + n + v * kLanes, load(sums), p.N - n - v * kLanes);
}

// b [N,K], its rows [n0, n1): a panel of rows is turned kLanes units at a time, so that each sum runs over k in order.
template <class Source, class Out>
void rows(const Product& p, const uint32_t* a, int64_t units, int64_t n0, int64_t n1) {
  constexpr int step = Source::kStep;
  using T = typename Source::T;
  const T* b = static_cast<const T*>(p.b);
  alignas(64) float sums[kSkinnyRows * kPanel];
  for (int64_t n = n0; n < n1; n += kPanel) {
    start<Out, kVectors>(p, n, sums);
    for (int64_t u = 0; u < units; u += kLanes) {
      const int64_t k = u * step;
      const T* next = b + n * p.K + k + kAheadRows / int64_t(sizeof(T));
      if (k + kAheadRows / int64_t(sizeof(T)) >= p.K) next += (kPanel - 1) * p.K;
      WordVec w[kLanes / kTurnedGroup][kTurnedGroup][kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = n + v * kLanes < n1 ? n + v * kLanes : n1 - 1;
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) __builtin_prefetch(next + (v * kLanes + i) * p.K, 0, 3);
        WordVec r[kLanes];
        turned<Source>(b + at * p.K + k, p.K, n1 - at, p.K - k, r);
#pragma GCC unroll 16
        for (int j = 0; j < kLanes; ++j) w[j / kTurnedGroup][j % kTurnedGroup][v] = r[j];
      }
#pragma GCC unroll 4
      for (int j = 0; j < kLanes / kTurnedGroup; ++j)
        multiply<Source>(p.M, a + u + j * kTurnedGroup, units, w[j], sums, kPanel);
    }
    finish<Out, kVectors>(p, n, sums);
  }
}

// Packed b, one row of a: S panels stream through at a time, their sums in registers. Two streams are read faster than
// one.
template <class Source, class Out, int S>
void panels(const Product& p, const uint32_t* a, int64_t first, int64_t apart) {
  constexpr int kWide = kPanelWords / kLanes;
  const int64_t words = packed_words<Source>(p.K);
  auto* c = static_cast<Out*>(p.c);
  const uint32_t* w[S];
  Vec sum[S][kWide];
#pragma GCC unroll 2
  for (int s = 0; s < S; ++s) {
    w[s] = static_cast<const uint32_t*>(p.b) + (first + s * apart) * words * kPanelWords;
    for (int v = 0; v < kWide; ++v) {
      const int64_t n = (first + s * apart) * kPanelWords + v * kLanes;
      sum[s][v] = n < p.N ? first_sum<Out>(p, 0, n) : Vec{};
    }
  }
  for (int64_t i = 0; i < words; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kWordUnits<Source>; ++j) {
      const WordVec x = repeat(a[i * kWordUnits<Source> + j]);
#pragma GCC unroll 2
      for (int s = 0; s < S; ++s)
#pragma GCC unroll 8
        for (int v = 0; v < kWide; ++v) {
          const uint32_t* from = w[s] + i * kPanelWords + v * kLanes;
          if (j == 0) __builtin_prefetch(from + kAheadStream / 4);
          sum[s][v] = Source::multiply_add(sum[s][v], x, unit_of<Source>(load_bits<WordVec>(from), j));
        }
    }
  for (int s = 0; s < S; ++s)
    for (int v = 0; v < kWide; ++v) {
      const int64_t n = (first + s * apart) * kPanelWords + v * kLanes;
      if (n < p.N) store_some(c + n, sum[s][v], p.N - n);
    }
}

// Packed b, several rows of a: as rows(), without turning.
template <class Source, class Out>
void packed_rows(const Product& p, const uint32_t* a, int64_t units, int64_t panel) {
  constexpr int V = kPackedVectors;
  alignas(64) float sums[kSkinnyRows * V * kLanes];
  for (int64_t column = 0; column < kPanelWords; column += V * kLanes) {
    const int64_t n = panel * kPanelWords + column;
    const auto* b = static_cast<const uint32_t*>(p.b) + panel * packed_words<Source>(p.K) * kPanelWords + column;
    start<Out, V>(p, n, sums);
    const auto add = [&]<int G>(int64_t u) __attribute__((always_inline)) {
      WordVec w[G][V];
#pragma GCC unroll 8
      for (int g = 0; g < G; ++g) {
        const uint32_t* word = b + (u + g) / kWordUnits<Source> * kPanelWords;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          if (v * kLanes % 16 == 0) __builtin_prefetch(word + v * kLanes + kAheadPanel / 4, 0, 3);
          w[g][v] = unit_of<Source>(load_bits<WordVec>(word + v * kLanes), (u + g) % kWordUnits<Source>);
        }
      }
      multiply<Source>(p.M, a + u, units, w, sums, V * kLanes);
    };
    int64_t u = 0;
    for (; u + kPackedGroup <= units; u += kPackedGroup) add.template operator()<kPackedGroup>(u);
    for (; u < units; ++u) add.template operator()<1>(u);
    finish<Out, V>(p, n, sums);
  }
}

template <class Source, class Out>
void run_packed(const Product& p) {
  auto* a = static_cast<uint32_t*>(p.workspace);
  const int64_t used = (p.K + Source::kStep - 1) / Source::kStep,
                units = packed_words<Source>(p.K) * kWordUnits<Source>;
  for (int64_t m = 0; m < p.M; ++m) {
    row_units<Source>(p, m, 0, used, a + m * units);
    if (units > used) a[m * units + used] = 0;  // of the last word, when K is odd
  }
  parallel_pieces((p.N + kPanelWords - 1) / kPanelWords, kWorth / (p.M * p.K * kPanelWords + 1) + 1,
                  [&](int64_t begin, int64_t end) {
                    if (p.M > 1) {
                      for (int64_t i = begin; i < end; ++i) packed_rows<Source, Out>(p, a, units, i);
                      return;
                    }
                    constexpr int S = kPanelWords / kLanes <= 2 ? 2 : 1;
                    const int64_t half = (end - begin) / S;
                    for (int64_t i = begin; i < begin + half; ++i) panels<Source, Out, S>(p, a, i, half);
                    for (int64_t i = begin + half * S; i < end; ++i) panels<Source, Out, 1>(p, a, i, 0);
                  });
}

template <class Source, class Out>
void run(const Product& p) {
  if (p.packed) return run_packed<Source, Out>(p);
  const int64_t used = (p.K + Source::kStep - 1) / Source::kStep;
  // Rows of b transposed are taken kLanes units at a time; units beyond K are 0 in a and in b.
  const int64_t units = p.transpose_b ? (used + kLanes - 1) / kLanes * kLanes : used;
  auto* a = static_cast<uint32_t*>(p.workspace);
  for (int64_t m = 0; m < p.M; ++m) {
    row_units<Source>(p, m, 0, used, a + m * units);
    std::memset(a + m * units + used, 0, size_t(units - used) * 4);
  }
  parallel((p.N + kPanel - 1) / kPanel, kWorth / (p.M * p.K * kPanel + 1) + 1,
           [&](int64_t begin, int64_t end, int64_t) {
             const int64_t n0 = begin * kPanel, n1 = end * kPanel < p.N ? end * kPanel : p.N;
             if (p.transpose_b)
               rows<Source, Out>(p, a, units, n0, n1);
             else if (p.M == 1)
               columns<Source, Out, kGroup / 2, false>(p, a, units, n0, n1);
             else
               columns<Source, Out, kGroup, true>(p, a, units, n0, n1);
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
