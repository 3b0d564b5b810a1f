#include <algorithm>

#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

// oracle: mem.priority_queue
TEST(PriorityQueueMemory, WithRoomForAllItIsFullAttention) {
  AttentionAlone full;
  for (const char* options : {"slots: 20, soft_bias: false", "slots: 20, score: norm", "slots: 20, score: usage"}) {
    MemoryAlone memory(cat("{type: priority_queue, ", options, "}"));
    share(memory, full);
    EXPECT_LT(kit::largest_difference(memory(rows(14)), full(rows(14))), 1e-12) << options;
  }
}

TEST(PriorityQueueMemory, KeepsTheLargestScoresOfAll) {
  MemoryAlone memory("{type: priority_queue, slots: 3, score: norm}");
  const Tensor x = rows(15), k = Made(memory, x).k;
  const auto norm = [&](int64_t j, int64_t head) {
    double sum = 0;
    for (int64_t c = 0; c < 4; ++c) sum += std::pow(value_at(k, j * kMemoryWidth + head * 4 + c), 2);
    return sum;
  };
  const Tensor want = attention_over(memory, x, [&](int64_t i, int64_t head) {
    std::vector<int64_t> seen;
    for (int64_t j = 0; j < i; ++j) seen.push_back(j);
    std::sort(seen.begin(), seen.end(), [&](int64_t a, int64_t b) { return norm(a, head) > norm(b, head); });
    if (seen.size() > 3) seen.resize(3);
    seen.push_back(i);
    return seen;
  });
  EXPECT_LT(kit::largest_difference(memory(x), want), 1e-12);
}

TEST(PriorityQueueMemory, TheOrderOfWhatWasBeforeDoesNotMatter) {
  MemoryAlone memory("{type: priority_queue, slots: 3}");
  const Tensor x = rows(8), other = kit::rows_of(x, {5, 2, 0, 6, 1, 3, 4, 7});
  EXPECT_LT(kit::largest_difference(memory(x).slice(7, 8), memory(other).slice(7, 8)), 1e-12);
}

// oracle: infer.kv_evict
TEST(PriorityQueueMemory, EvictsWhatWasLeastUsedBetweenSinksAndTheRecent) {
  const int64_t slots = 6, sinks = 1, recent = 2, T = 24;
  MemoryAlone memory("{type: priority_queue, slots: 6, score: usage, sinks: 1, recent: 2}");
  const Tensor x = rows(T);
  const Made m(memory, x);
  std::vector<std::vector<std::vector<int64_t>>> seen(kMemoryHeads, std::vector<std::vector<int64_t>>(T));
  for (int64_t head = 0; head < kMemoryHeads; ++head) {
    std::vector<int64_t> cache;
    std::vector<double> used(T);
    for (int64_t i = 0; i < T; ++i) {
      cache.push_back(i);
      seen[size_t(head)][size_t(i)] = cache;
      double sum = 0;
      for (const int64_t j : cache) sum += std::exp(m.dot(i, j, head) / 2);
      for (const int64_t j : cache) used[size_t(j)] += std::exp(m.dot(i, j, head) / 2) / sum;
      if (int64_t(cache.size()) > slots)
        cache.erase(std::min_element(cache.begin() + sinks, cache.end() - recent,
                                     [&](int64_t a, int64_t b) { return used[size_t(a)] < used[size_t(b)]; }));
    }
  }
  const Tensor want = attention_over(memory, x, [&](int64_t i, int64_t head) { return seen[size_t(head)][size_t(i)]; });
  EXPECT_LT(kit::largest_difference(memory(x), want), 1e-12);
  EXPECT_EQ(memory.mixer->state_bytes({1000}, DType::f32), slots * (2 * kMemoryWidth + kMemoryHeads) * 4);
}

// Keys of one length, by which the older goes, whatever rounding leaves of it when positions turn them.
// oracle: mem.priority_queue
TEST(PriorityQueueMemory, EqualLengthsDropTheOlderAlsoWhereKeysTurn) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const char* heads : {"mha", "mhe_mul", "skv"})
      for (const char* memory :
           {"{type: priority_queue, slots: 3, score: norm}",
            "{type: short_long, window: 2, long: {type: priority_queue, slots: 2, score: norm}}"}) {
        kit::Bench bench(dtype, dtype);
        const auto rotary = bench.make<Position>("rotary", {.hidden_size = 8}, "{}", "rotary");
        const Mixer::Args args{.hidden_size = 8, .max_position_embeddings = 64, .position = rotary.get()};
        const auto mixer = bench.make<Mixer>(
                       "memory_attention", args,
                       cat("{num_attention_heads: 2, head_dim: 4, heads: ", heads, ", memory: ", memory, "}")),
                   last = bench.make<Mixer>(
                       "attention", args,
                       cat("{num_attention_heads: 2, head_dim: 4, heads: ", heads, ", field: {type: span, left: 3}}"),
                       "last");
        kit::randomise(bench.parameters(), 7);
        for (Parameter& p : bench.parameters().all())
          if (const Parameter* same = bench.parameters().find("last" + p.name.substr(p.name.find('.'))))
            copy_into(same->master.value(), p.master.value());
        // Tokens differ in a channel that keys do not see, so that all keys have one length.
        Tensor x = kit::normal({40, 8}, dtype, 3);
        for (int64_t i = 0; i < 40 * 8; ++i)
          if (i % 8 != 7) set_value(x, i, value_at(x, i % 8));
        const bool shared = std::string(heads) == "skv";
        for (const std::string part : {"part", "last"}) {
          const Tensor w = bench[part + (shared ? ".heads.kv.weight" : ".heads.k.weight")];
          for (int64_t c = 0; c < w.cols(); ++c) set_value(w, 7 * w.cols() + c, 0);
        }
        const Sequences all = Sequences::single(40);
        const Tensor got = mixer->forward({Var(x), all}).value(), want = last->forward({Var(x), all}).value();
        EXPECT_LT(kit::largest_difference(got, want), dtype == DType::f64 ? 1e-12 : 1e-4) << heads << memory << dtype;
      }
}

TEST(PriorityQueueMemory, NothingMayBeLeftToGo) {
  EXPECT_NE(kit::coded_error_of([] {
              MemoryAlone("{type: priority_queue, slots: 4, sinks: 2, recent: 2}");
            }).find("2 priority_queue: slots 4 must be above sinks + recent = 4"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
