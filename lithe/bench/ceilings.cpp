#include "lithe/bench/ceilings.h"

#include <algorithm>

#include "lithe/base/machine.h"
#include "lithe/bench/timing.h"
#include "lithe/bench/vectors.h"

namespace lithe::bench {
namespace {

constexpr int64_t kMemory = int64_t(128) << 20, kBlock = 1024;
constexpr int64_t kRuns = 4;
constexpr int64_t kRounds = 500000;                // of multiply-adds: about a millisecond
constexpr int64_t kCacheBytes = int64_t(1) << 24;  // read by each thread from its cache
constexpr const char* kNames[] = {"f32", "bf16", "int8", "read", "copy", "L2", "L3"};

double operations_per_second(double (*loop)(int64_t)) {
  std::vector<double> done(size_t(threads()), 0.0);
  const double time = seconds([&] {
    parallel_for(threads(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) done[size_t(i)] = loop(kRounds);
    });
  });
  double sum = 0;
  for (const double d : done) sum += d;
  return sum / time;
}

// Bytes a second of reading [0, bytes) with all threads, `times` over, each thread a part of its own.
double read_rate(const std::byte* from, int64_t bytes, int64_t times) {
  std::vector<int64_t> sums(size_t(threads()) * 8, 0);  // a cache line each
  const double time = seconds([&] {
    parallel_for(bytes / kBlock, 1, [&](int64_t begin, int64_t end, int thread) {
      int64_t sum = 0;
      for (int64_t i = 0; i < times; ++i) sum += vectors().read(from + begin * kBlock, size_t((end - begin) * kBlock));
      sums[size_t(thread) * 8] = sum;
    });
  });
  volatile int64_t keep = sums[0];
  (void)keep;
  const int64_t whole_blocks = bytes / kBlock * kBlock;
  return double(whole_blocks) * double(times) / time;
}

// The fastest of a few short runs: other programs only lengthen them.
template <class F>
double fastest(F&& rate) {
  double best = 0;
  for (int64_t i = 0; i < kRuns; ++i) best = std::max(best, rate(i));
  return best;
}

}  // namespace

const char* name_of(Ceiling ceiling) { return kNames[int(ceiling)]; }

std::optional<Ceiling> ceiling_named(const std::string& name) {
  for (const Ceiling c : kCeilings)
    if (name == name_of(c)) return c;
  return {};
}

Ceilings::Ceilings() {
  const MemoryScope memory(MemoryClass::workspace);
  from_ = zeros({kMemory}, DType::u8), to_ = zeros({kMemory}, DType::u8);
  l2_ = cache_bytes(2) / 2 / kBlock * kBlock;
  // What all threads together read is half of the third cache, and each of them more than the second holds.
  l3_ = cache_bytes(3) / 2 / threads() / kBlock * kBlock;
  if (l3_ < 4 * l2_ || l3_ * threads() > kMemory) l3_ = 0;
}

bool Ceilings::has(Ceiling ceiling) const {
  switch (ceiling) {
    case Ceiling::bf16: return vectors().bf16 != nullptr;
    case Ceiling::int8: return vectors().int8 != nullptr;
    case Ceiling::l2: return l2_ > 0 && l2_ * threads() <= kMemory;
    case Ceiling::l3: return l3_ > 0;
    default: return true;
  }
}

double Ceilings::probe(Ceiling ceiling) const {
  check(has(ceiling), "ceiling", "this machine has no ", name_of(ceiling));
  const auto* from = static_cast<const std::byte*>(from_.raw());
  auto* to = static_cast<std::byte*>(to_.raw());
  const auto operations = [](double (*loop)(int64_t)) {
    return fastest([&](int64_t) { return operations_per_second(loop); });
  };
  const auto cached = [&](int64_t own) {
    read_rate(from, own * threads(), 1);
    return fastest([&](int64_t) { return read_rate(from, own * threads(), std::max<int64_t>(1, kCacheBytes / own)); });
  };
  constexpr int64_t part = kMemory / kRuns;
  switch (ceiling) {
    case Ceiling::f32: return operations(vectors().f32);
    case Ceiling::bf16: return operations(vectors().bf16);
    case Ceiling::int8: return operations(vectors().int8);
    case Ceiling::read: return fastest([&](int64_t i) { return read_rate(from + i * part, part, 1); });
    case Ceiling::copy:
      return fastest([&](int64_t i) {
        const double time = seconds([&] {
          parallel_for(part / kBlock, 1, [&](int64_t begin, int64_t end, int) {
            const int64_t at = i * part + begin * kBlock;
            vectors().copy(from + at, to + at, size_t((end - begin) * kBlock));
          });
        });
        return 2 * double(part) / time;
      });
    case Ceiling::l2: return cached(l2_);
    case Ceiling::l3: return cached(l3_);
  }
  return 0;
}

double multiply_add_gflops() { return operations_per_second(vectors().f32) * 1e-9; }

double read_gbs(const Tensor& x) { return read_rate(static_cast<const std::byte*>(x.raw()), x.bytes(), 1) * 1e-9; }

}  // namespace lithe::bench
