#include <algorithm>

#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

std::vector<int64_t> nearest(const Made& m, int64_t i, int64_t head, size_t p) {
  std::vector<int64_t> all;
  for (int64_t j = 0; j <= i; ++j) all.push_back(j);
  std::sort(all.begin(), all.end(), [&](int64_t a, int64_t b) { return m.dot(i, a, head) > m.dot(i, b, head); });
  if (all.size() > p) all.resize(p);
  return all;
}

// oracle: mem.retrieval
TEST(RetrievalMemory, WithAllFoundItIsFullAttention) {
  AttentionAlone full;
  MemoryAlone memory("{type: retrieval, nearest: 20}");
  share(memory, full);
  EXPECT_LT(difference(memory(rows(14)), full(rows(14))), 1e-12);
}

TEST(RetrievalMemory, FindsWhatBruteForceFinds) {
  for (const int p : {1, 3}) {
    MemoryAlone memory(cat("{type: retrieval, nearest: ", p, "}"));
    const Tensor x = rows(20);
    const Made m(memory, x);
    const Tensor want =
        attention_over(memory, x, [&](int64_t i, int64_t head) { return nearest(m, i, head, size_t(p)); });
    EXPECT_LT(difference(memory(x), want), 1e-12) << p;
  }
}

TEST(RetrievalMemory, WhatIsNotFoundGetsNoGradient) {
  MemoryAlone memory("{type: retrieval, nearest: 1}");
  const Var x = Var::leaf(rows(12));
  const Made m(memory, x.value());
  Tape tape;
  const Var y = memory.mixer->forward({x, Sequences::single(12)});
  Tensor last = zeros(y.shape(), DType::f64);
  for (int64_t c = 0; c < kMemoryWidth; ++c) set_value(last, 11 * kMemoryWidth + c, 1);
  tape.backward(y, last);
  std::vector<bool> found(12);
  found[11] = true;
  for (int64_t head = 0; head < kMemoryHeads; ++head) found[size_t(nearest(m, 11, head, 1)[0])] = true;
  for (int64_t j = 0; j < 12; ++j) {
    double sum = 0;
    for (int64_t c = 0; c < kMemoryWidth; ++c) sum += std::abs(value_at(x.grad(), j * kMemoryWidth + c));
    if (found[size_t(j)]) continue;
    EXPECT_EQ(sum, 0) << j;
  }
}

}  // namespace
}  // namespace lithe
