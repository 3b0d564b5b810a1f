#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

// oracle: mem.short_long
TEST(ShortLongMemory, WhatNeverLeavesTheWindowIsFullAttention) {
  AttentionAlone full;
  MemoryAlone memory("{type: short_long, window: 20, long: {type: priority_queue, slots: 4}}");
  share(memory, full);
  EXPECT_LT(kit::largest_difference(memory(rows(14)), full(rows(14))), 1e-12);
}

TEST(ShortLongMemory, AClosedGateLeavesTheWindow) {
  AttentionAlone window("{type: span, left: 2}");
  MemoryAlone memory("{type: short_long, window: 3, combine: gated, long: {type: snapshot, chunk: 2}}");
  share(memory, window);
  const Tensor gate = memory.bench["part.memory.gate"];
  for (int64_t h = 0; h < kMemoryHeads; ++h) set_value(gate, h, -1000);
  EXPECT_LT(kit::largest_difference(memory(rows(14)), window(rows(14))), 1e-12);
}

TEST(ShortLongMemory, ALongMemoryOfEverythingMakesItFullAttention) {
  AttentionAlone full;
  MemoryAlone memory("{type: short_long, window: 3, long: {type: retrieval, nearest: 20}}");
  share(memory, full);
  EXPECT_LT(kit::largest_difference(memory(rows(14)), full(rows(14))), 1e-12);
}

}  // namespace
}  // namespace lithe
