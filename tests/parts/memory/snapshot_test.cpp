#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

// oracle: mem.snapshot
TEST(SnapshotMemory, ChunksOfOneTokenAreAWindow) {
  MemoryAlone memory("{type: snapshot, slots: 3, chunk: 1}");
  AttentionAlone window("{type: span, left: 3}");
  share(memory, window);
  EXPECT_LT(kit::largest_difference(memory(rows(12)), window(rows(12))), 1e-12);
}

TEST(SnapshotMemory, CountedSnapshotsOfEqualTokensAreFullAttention) {
  const Tensor some = rows(4), x = kit::rows_of(some, {0, 0, 0, 1, 1, 1, 2, 2, 2, 3});
  AttentionAlone full;
  MemoryAlone counted("{type: snapshot, slots: 8, chunk: 3, log_count: true}"),
      not_counted("{type: snapshot, slots: 8, chunk: 3}");
  share(counted, full);
  share(not_counted, full);
  EXPECT_LT(kit::largest_difference(counted(x), full(x)), 1e-12);
  EXPECT_GT(kit::largest_difference(not_counted(x), full(x)), 1e-3);
}

TEST(SnapshotMemory, EqualKeysHaveEqualWeightsByTheSlotAndNotByTheToken) {
  MemoryAlone memory("{type: snapshot, slots: 8, chunk: 3}");
  fill_zero(memory.bench["part.heads.k.weight"]);
  const Tensor x = rows(7), y = memory(x), v = Made(memory, x).v, want = zeros({1, kMemoryWidth}, DType::f64);
  for (int64_t c = 0; c < kMemoryWidth; ++c) {  // token 6 sees two snapshots and itself
    double sum = value_at(v, 6 * kMemoryWidth + c);
    for (int64_t j = 0; j < 6; ++j) sum += value_at(v, j * kMemoryWidth + c) / 3;
    set_value(want, c, sum / 3);
  }
  EXPECT_LT(kit::largest_difference(y.slice(6, 7), kit::product(want, memory.bench["part.output.weight"])), 1e-12);
}

TEST(SnapshotMemory, ItsStateIsBounded) {
  MemoryAlone memory("{type: snapshot, slots: 4, chunk: 8}");
  for (const int64_t tokens : {31, 32, 1000, 1001, 100007})
    EXPECT_EQ(memory.mixer->state_bytes({tokens}, DType::f32),
              2 * kMemoryWidth * 4 * (std::min<int64_t>(4, tokens / 8) + tokens % 8));
}

// A chunk that leaves its slot joins the mean of those that left before: token 9 of chunks of two sees the mean of
// chunks 0 to 2, chunk 3 and itself.
// oracle: mem.snapshot
TEST(SnapshotMemory, WhatOverflowsMayMerge) {
  MemoryAlone memory("{type: snapshot, slots: 2, chunk: 2, overflow: merge}"),
      dropping("{type: snapshot, slots: 2, chunk: 2}");
  share(dropping, memory);
  const Tensor x = rows(10), y = memory(x);
  EXPECT_LT(kit::largest_difference(y.slice(0, 6), dropping(x).slice(0, 6)), 1e-12);
  const Made made(memory, x);
  const int64_t d = kMemoryWidth / kMemoryHeads;
  const auto mean = [&](const Tensor& of, int64_t from, int64_t to, int64_t c) {
    double sum = 0;
    for (int64_t j = from; j < to; ++j) sum += value_at(of, j * kMemoryWidth + c) / double(to - from);
    return sum;
  };
  const Tensor context = zeros({1, kMemoryWidth}, DType::f64);
  for (int64_t h = 0; h < kMemoryHeads; ++h) {
    std::vector<std::pair<double, std::vector<double>>> read;
    const auto see = [&](int64_t from, int64_t to) {
      double dot = 0;
      std::vector<double> value;
      for (int64_t c = h * d; c < (h + 1) * d; ++c) {
        dot += value_at(made.q, 9 * kMemoryWidth + c) * mean(made.k, from, to, c);
        value.push_back(mean(made.v, from, to, c));
      }
      read.push_back({std::exp(dot / std::sqrt(double(d))), value});
    };
    see(0, 6);
    see(6, 8);
    see(8, 9);
    see(9, 10);
    double sum = 0;
    for (const auto& [weight, value] : read) sum += weight;
    for (const auto& [weight, value] : read)
      for (int64_t c = 0; c < d; ++c)
        set_value(context, h * d + c, value_at(context, h * d + c) + weight / sum * value[size_t(c)]);
  }
  EXPECT_LT(kit::largest_difference(y.slice(9, 10), kit::product(context, memory.bench["part.output.weight"])), 1e-12);
}

TEST(SnapshotMemory, MergedChunksOfEqualTokensCountAsTheirTokensDo) {
  const Tensor some = rows(4), x = kit::rows_of(some, {0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3});
  AttentionAlone full;
  MemoryAlone counted("{type: snapshot, slots: 3, chunk: 3, log_count: true, overflow: merge}");
  share(counted, full);
  EXPECT_LT(kit::largest_difference(counted(x), full(x)), 1e-12);
}

}  // namespace
}  // namespace lithe
