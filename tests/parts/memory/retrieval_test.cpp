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
  EXPECT_LT(kit::largest_difference(memory(rows(14)), full(rows(14))), 1e-12);
}

TEST(RetrievalMemory, FindsWhatBruteForceFinds) {
  for (const int p : {1, 3}) {
    MemoryAlone memory(cat("{type: retrieval, nearest: ", p, "}"));
    const Tensor x = rows(20);
    const Made m(memory, x);
    const Tensor want =
        attention_over(memory, x, [&](int64_t i, int64_t head) { return nearest(m, i, head, size_t(p)); });
    EXPECT_LT(kit::largest_difference(memory(x), want), 1e-12) << p;
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

// The nearest of another text, as the field top_keys shows them.
// oracle: mem.retrieval
TEST(Retrieval, ReadsAnotherText) {
  const auto crossing = [](const std::string& type, const std::string& options, kit::Bench& bench) {
    auto out = bench.make<Mixer>(type, {.hidden_size = kMemoryWidth, .causal = false, .cross = true},
                                 cat("{num_attention_heads: 2, ", options, "}"));
    kit::randomise(bench.parameters(), 7);
    return out;
  };
  kit::Bench one, other;
  const auto memory = crossing("memory_attention", "memory: {type: retrieval, nearest: 3}", one),
             field = crossing("attention", "field: {type: top_keys, keys: 3}", other);
  const Tensor x = rows(5), source = rows(9, 4);
  const Rows from{Var(source), Sequences::single(9)};
  const Sequences five = Sequences::single(5);
  const auto read = [&](const Mixer& mixer) {
    return mixer.forward({.x = Var(x), .sequences = five, .source = &from}).value();
  };
  EXPECT_LE(kit::largest_difference(read(*memory), read(*field)), 1e-12);
  const auto state = memory->make_state({1, 9, DType::f64, Device::cpu});
  memory->read_source(*state, from);
  EXPECT_EQ(state->bytes(), 9 * 2 * 8 * 8);
  EXPECT_LE(kit::largest_difference(memory->forward({.x = Var(x), .sequences = five, .state = state.get()}).value(),
                                    read(*memory)),
            1e-12);
}

}  // namespace
}  // namespace lithe
