#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "files_for_tests.h"
#include "lithe/data/batches.h"

namespace lithe {
namespace {

TokenStore counting_store() {
  std::vector<std::vector<int32_t>> documents;
  int32_t id = 1;
  for (int d = 0; d < 23; ++d) {
    documents.emplace_back();
    for (int i = 0; i <= d % 9; ++i) documents.back().push_back(id++);
  }
  return TokenStore::from_documents(documents, {.vocab_size = 1000, .begin_of_text = 0, .end_of_text = 0});
}

TEST(Prefetcher, GivesWhatTheOrderGivesThroughSeveralEpochs) {
  const BatchOrder order(counting_store(), 5, 13, 2);
  const int64_t n = order.batches_per_epoch();
  ASSERT_GT(n, 3);
  for (const int64_t depth : {1, 2, 7}) {
    int64_t epoch = 1, index = 2;
    Prefetcher prefetcher(order, epoch, index, depth);
    for (int k = 0; k < 5 * n; ++k) {
      ASSERT_EQ(prefetcher.next(), order.batch(epoch, index)) << "epoch " << epoch << " index " << index;
      if (++index == n) index = 0, ++epoch;
    }
  }
}

TEST(Prefetcher, ComputesNoMoreThanItsDepthAhead) {
  std::atomic<int> made = 0;
  Prefetcher prefetcher([&](int64_t, int64_t) { return ++made, Batch{.offsets = {0}}; }, 100, 0, 0, 3);
  for (int taken = 1; taken <= 20; ++taken) {
    prefetcher.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_GE(made, taken);
    EXPECT_LE(made, taken + 3);
  }
}

TEST(Prefetcher, StopsWhileItsQueueIsFullOrItsConsumerIsGone) {
  const BatchOrder order(counting_store(), 5, 13, 2);
  for (int k = 0; k < 200; ++k) {
    Prefetcher prefetcher(order, 0, 0, 1 + k % 4);
    for (int taken = 0; taken < k % 3; ++taken) prefetcher.next();
  }
}

TEST(Prefetcher, RethrowsAfterTheBatchesBeforeTheError) {
  const auto make = [](int64_t epoch, int64_t index) {
    check(index != 3, "test", "no batch ", index, " of epoch ", epoch);
    return Batch{.tokens = {int32_t(index)}, .labels = {0}, .offsets = {0, 1}};
  };
  Prefetcher prefetcher(make, 10, 0, 0, 8);
  for (int32_t k = 0; k < 3; ++k) EXPECT_EQ(prefetcher.next().tokens[0], k);
  for (int k = 0; k < 2; ++k) expect_error([&] { prefetcher.next(); }, {"test: no batch 3 of epoch 0"});
}

TEST(Prefetcher, RefusesAStartThatDoesNotExist) {
  const BatchOrder order(counting_store(), 5, 13, 2);
  expect_error([&] { Prefetcher(order, 0, order.batches_per_epoch()); }, {"does not exist"});
  expect_error([&] { Prefetcher(order, 0, 0, 0); }, {"depth must be at least 1, got 0"});
}

}  // namespace
}  // namespace lithe
