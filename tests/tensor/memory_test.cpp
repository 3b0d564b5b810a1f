// The ledger and the arena.
#include "lithe/tensor/memory.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>
#include <random>

#include "lithe/tensor/tensor.h"

namespace lithe {
namespace {

TEST(Ledger, BooksClassesAndPeaks) {
  for (const Device device : {Device::cpu, Device::meta}) {
    Ledger& book = ledger(device);
    book.reset_peak();
    const int64_t start = book.current(), weights = book.current(MemoryClass::weights);
    {
      const MemoryScope scope(MemoryClass::weights);
      const Tensor w({100}, DType::f32, device);
      EXPECT_EQ(book.current(MemoryClass::weights) - weights, 448);  // 400 bytes, in units of 64
      {
        const MemoryScope inner(MemoryClass::workspace);
        const Tensor t({1}, DType::u8, device);
        EXPECT_EQ(book.current(MemoryClass::workspace), 64);
      }
      EXPECT_EQ(MemoryScope::current(), MemoryClass::weights);
      EXPECT_EQ(book.current() - start, 448);
    }
    EXPECT_EQ(book.current(), start);
    EXPECT_EQ(book.peak() - start, 512);
    EXPECT_EQ(book.peak(MemoryClass::workspace), 64);
    EXPECT_EQ(book.peak(MemoryClass::weights) - weights, 448);
    book.reset_peak();
    EXPECT_EQ(book.peak(), book.current());
  }
  EXPECT_EQ(MemoryScope::current(), MemoryClass::activations);
}

TEST(Ledger, FreesUnderTheClassOfTheAllocation) {
  Ledger& book = ledger(Device::meta);
  const int64_t gradients = book.current(MemoryClass::gradients), decode = book.current(MemoryClass::decode);
  Tensor x;
  {
    const MemoryScope scope(MemoryClass::gradients);
    x = zeros({64}, DType::f32, Device::meta);
  }
  const Tensor view = x.slice(0, 10);
  {
    const MemoryScope scope(MemoryClass::decode);
    x = Tensor();
  }
  EXPECT_EQ(book.current(MemoryClass::gradients), gradients + 256);  // the view keeps it
  EXPECT_EQ(book.current(MemoryClass::decode), decode);
}

// Every thread books under the class of its own scope; totals and the peak are exact.
TEST(Ledger, CountsTheTensorsOfAllThreads) {
  constexpr int kThreads = 4, kTensors = 500;
  for (const Device device : {Device::cpu, Device::meta}) {
    Ledger& book = ledger(device);
    book.reset_peak();
    const int64_t start = book.current(), decode = book.current(MemoryClass::decode);
    int64_t held = 0, held_decode = 0;
    int given = 0;
#pragma omp parallel num_threads(kThreads)
    {
      const bool first = omp_get_thread_num() == 0;
      const MemoryScope scope(first ? MemoryClass::decode : MemoryClass::workspace);
      std::vector<Tensor> kept;
      for (int i = 0; i < kTensors; ++i) kept.push_back(Tensor({1 + i}, DType::u8, device));
#pragma omp barrier
      if (first) {
        held = book.current() - start;
        held_decode = book.current(MemoryClass::decode) - decode;
        given = omp_get_num_threads();
      }
#pragma omp barrier
    }
    int64_t each = 0;
    for (int i = 0; i < kTensors; ++i) each += (1 + i + 63) / 64 * 64;
    EXPECT_EQ(held, each * given);
    EXPECT_EQ(held_decode, each);
    EXPECT_EQ(book.peak() - start, each * given);
    EXPECT_EQ(book.current(), start);
  }
}

// Blocks of random sizes, written and read back: none overlaps another, all are aligned.
void take_and_give(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<Tensor, uint8_t>> live;
  for (int step = 0; step < 3000; ++step) {
    if (live.size() > 40 || (!live.empty() && random() % 3 == 0)) {
      const size_t at = random() % live.size();
      const auto* bytes = live[at].first.data<uint8_t>();
      for (int64_t i = 0; i < live[at].first.numel(); ++i) ASSERT_EQ(bytes[i], live[at].second) << "step " << step;
      live.erase(live.begin() + std::ptrdiff_t(at));
      continue;
    }
    const Tensor x({int64_t(1 + random() % 5000)}, DType::u8, Device::cpu);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(x.raw()) % 64, 0u);
    std::memset(x.raw(), step % 251, size_t(x.bytes()));
    live.emplace_back(x, uint8_t(step % 251));
  }
}

TEST(Arena, GivesDisjointAlignedBlocks) { take_and_give(3); }

// What a step frees, the next step gets again: the arena does not grow, once a few steps have taken up the pieces that
// earlier tests left (in which order several threads gave theirs back is chance).
TEST(Arena, KeepsItsSizeOverEqualSteps) {
  const auto step = [] {
    std::vector<Tensor> kept;
    for (int i = 0; i < 20; ++i) {
      kept.push_back(Tensor({1000 * (i + 1)}, DType::f32, Device::cpu));
      const Tensor scratch({777 * (20 - i)}, DType::f32, Device::cpu);
    }
  };
  for (int i = 0; i < 5; ++i) step();
  const int64_t settled = arena_bytes();
  for (int i = 0; i < 50; ++i) step();
  EXPECT_EQ(arena_bytes(), settled);
}

TEST(Arena, GivesThemToSeveralThreads) {
#pragma omp parallel num_threads(4)
  take_and_give(uint32_t(4 + omp_get_thread_num()));
}

}  // namespace
}  // namespace lithe
