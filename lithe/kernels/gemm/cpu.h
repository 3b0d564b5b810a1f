// What the vector kernels of matrix products are given: plain pointers and sizes.
#pragma once

#include <cstddef>

#include "lithe/kernels/gemm/gemm.h"

namespace lithe::kernels {

/// c = (accumulate ? c : 0) + op(a) op(b) + bias, as GemmArgs says, for f32 and bf16.
///
/// The sum behind an element of c starts at bias and c and takes k in order from 0: one chain of
/// multiply-adds in f32 (on avx512bf16, for bf16: of pairs of k, by vdpbf16ps). So the element has the
/// same bits whichever of skinny and blocked made it, whatever M, its row and the number of threads. `tiles` adds 32 k
/// at a time (cpu/tile.h), so that rowwise products that it can take are all its own.
struct Product {
  const GemmArgs* args;
  int64_t M, N, K;    // M, N > 0
  const void *a, *b;  // b: as it is, or the data of a packed matrix
  const float* bias;  // or null
  void* c;
  bool packed, transpose_a, transpose_b, accumulate, bf16_in, bf16_out;
  int threads;
  void* workspace = nullptr;  // 64-byte aligned, of the size below
};
inline Cost cost(const Product& product) { return cost(*product.args); }

/// Rows that `skinny` can take.
constexpr int64_t kSkinnyRows = 32;
constexpr int64_t skinny_workspace(int64_t M, int64_t K) { return M * (K + 16) * 4; }

/// `blocked` packs some units of some columns of b at a time: all threads together what all of them read, or each what
/// it reads alone. In each thread it holds kWordsOfA words of a, and, for a bf16 c of more than kLeastUnits terms, the
/// f32 sums of kMostStayRows rows of kBlockCols columns.
constexpr int64_t kWordsOfA = 26 << 10, kBlockCols = 512, kMostStayRows = 264, kLeastUnits = 96;
struct BlockedPack {
  int64_t units, cols;  // at once; of a bf16 c all units
  int64_t words;        // of 32 bits, for as many units or fewer
  constexpr BlockedPack(bool together, int64_t N, int64_t all_units, bool bf16_out) {
    constexpr int64_t kColumns = 64;  // the least
    const auto upto = [](int64_t x, int64_t most) { return x < most ? x : most; };
    const int64_t most_words = together ? 1 << 20 : 1 << 17, most_units = together ? 2048 : 256;
    units = bf16_out ? all_units : upto(all_units, most_units);
    const int64_t all = (N + kColumns - 1) / kColumns, fit = most_words / kColumns / (units + 1);
    const int64_t groups = fit > 1 ? (all + fit - 1) / fit : all;  // nearly equal ones
    cols = (all + groups - 1) / groups * kColumns;
    const int64_t least = kColumns * units;
    words = upto(all * least, least > most_words ? least : most_words);
  }
};
constexpr int64_t blocked_words_of_thread(const Product& p) {
  return kWordsOfA + (p.bf16_out && p.K > kLeastUnits ? kMostStayRows * kBlockCols : 0);
}
constexpr int64_t blocked_workspace(const Product& p) {
  const int64_t together = BlockedPack(true, p.N, p.K, p.bf16_out).words;
  const int64_t each = p.threads * BlockedPack(false, p.N, p.K, p.bf16_out).words;
  const int64_t packed = p.packed && !p.bf16_in ? 0 : together > each ? together : each;
  return 4 * (p.threads * blocked_words_of_thread(p) + packed);
}

/// `tiles` takes a chunk of the product at a time. Of an a that is transposed, or whose rows do not suit the first
/// cache, it packs all; of b a group of columns in each thread, or, where these are few, all; of a packed b nothing.
/// Between chunks of k it keeps f32 sums.
constexpr int64_t kTileChunkRows = 1024, kTileChunkCols = 2048, kTileChunkK = 4096;
constexpr int64_t kTilePieceBytes = 32 * 256 * 2;  // of a: 32 rows by 256 k
constexpr int64_t kTileGroupBytes = 1 << 20, kTileLeastGroupCols = 128, kTileMostGroupCols = 1024;  // of b
constexpr int64_t kTileItems = 8;  // parts of the work for each thread: where others use the processor, too, threads
                                   // are not equally fast
struct TileWorkspace {
  bool packs_a, own_columns;  // each thread packs columns of its own
  int64_t chunk_rows, chunk_cols, group_cols;
  int64_t a, group_b, b, between, sums;  // bytes
  constexpr TileWorkspace(int64_t M, int64_t N, int64_t K, bool packed, bool transpose_a, int threads) {
    const auto upto = [](int64_t n, int64_t most) { return n < most ? (n + 31) / 32 * 32 : most; };
    const int64_t k = upto(K, kTileChunkK), each = int64_t(threads), fit = kTileGroupBytes / (k > 0 ? 2 * k : 64);
    const bool pieces = K > kTileChunkK;
    // Rows that lie a multiple of 2 KiB apart share few of the 64 sets of the first cache, and do not stay.
    packs_a = transpose_a || K % 32 != 0 || K / 32 % 32 == 0;
    own_columns = N >= 2 * kTileLeastGroupCols * each;
    chunk_rows = packs_a || pieces ? kTileChunkRows : INT64_MAX;
    chunk_cols = own_columns && !pieces ? INT64_MAX : kTileChunkCols;
    const int64_t share = upto(N / (kTileItems * each), kTileMostGroupCols), most = fit / 32 * 32;
    group_cols = share < most ? share : most;
    if (group_cols < kTileLeastGroupCols) group_cols = kTileLeastGroupCols;
    group_cols = upto(N, group_cols);
    const int64_t rows = upto(M, kTileChunkRows), all = 2 * upto(N, INT64_MAX) * k,
                  largest = 2 * kTileLeastGroupCols * k;
    // Few rows that meet a packed b are packed whole.
    a = packed && M <= 32 ? 2 * rows * upto(K, INT64_MAX) : packs_a ? 2 * rows * k : each * kTilePieceBytes;
    group_b = largest < kTileGroupBytes ? kTileGroupBytes : largest;  // no more for fewer k
    if (group_b > all) group_b = all;
    b = packed ? 0 : own_columns ? each * group_b : 2 * upto(N, chunk_cols) * k;
    between = pieces ? 4 * rows * upto(N, chunk_cols) : 0;
    sums = each * 4 * 32 * upto(N, kTileMostGroupCols);
  }
  constexpr int64_t bytes() const { return a + b + between + sums; }
};

}  // namespace lithe::kernels

// skinny reads b once and in order, which is what counts when M is small; blocked computes at full speed.
LITHE_DECLARE_CPU(skinny, Product)
LITHE_DECLARE_CPU(blocked, Product)
// tiles takes bf16 only.
LITHE_DECLARE_TILES(tiles, Product)
