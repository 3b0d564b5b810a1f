#include "lithe/data/lanes.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace lithe {
namespace {

// Documents of 7, 1, 0 and 9 tokens, ids counting up from 10; a begin (1) before and an end (2) after each.
TokenStore store() {
  std::vector<std::vector<int32_t>> documents;
  int32_t id = 10;
  for (const int64_t n : {7, 1, 0, 9}) {
    documents.emplace_back();
    for (int64_t i = 0; i < n; ++i) documents.back().push_back(id++);
  }
  return TokenStore::from_documents(documents, {.vocab_size = 40, .begin_of_text = 1, .end_of_text = 2});
}

// oracle: mem.xl
TEST(LaneOrder, EveryLaneGoesThroughItsPartOfTheTextInOrder) {
  const DocumentRows whole(store(), 4);
  Batch all{.offsets = {0}};
  for (int64_t d = 0; d < 4; ++d)
    if (const int64_t n = whole.row_begin(d + 1) - whole.row_begin(d)) whole.append(all, d, 0, n);
  ASSERT_EQ(all.rows(), 8 + 2 + 10);
  for (const int64_t lanes : {1, 2, 3, 20}) {
    const LaneOrder order(store(), 4, lanes);
    std::vector<int32_t> tokens, labels;
    for (int64_t lane = 0; lane < lanes; ++lane)
      for (int64_t k = 0; k < order.batches_per_epoch(); ++k) {
        const Batch batch = order.batch(3, k);
        ASSERT_EQ(int64_t(batch.continues.size()), lanes);
        ASSERT_LE(batch.rows(), order.largest_batch());
        const int64_t begin = batch.offsets[size_t(batch.lanes[size_t(lane)])],
                      end = batch.offsets[size_t(batch.lanes[size_t(lane) + 1])];
        tokens.insert(tokens.end(), batch.tokens.begin() + begin, batch.tokens.begin() + end);
        labels.insert(labels.end(), batch.labels.begin() + begin, batch.labels.begin() + end);
      }
    EXPECT_EQ(tokens, all.tokens) << lanes;
    EXPECT_EQ(labels, all.labels) << lanes;
  }
}

TEST(LaneOrder, ADocumentThatEndsEndsItsSequenceAndTheNextBeginsAnew) {
  const LaneOrder order(store(), 4, 2);  // rows 0 to 9 and 10 to 19: documents of 8, 2 and 10 rows
  using Ints = std::vector<int64_t>;
  const Batch first = order.batch(0, 0), second = order.batch(0, 1), third = order.batch(0, 2);
  EXPECT_EQ(first.lanes, (Ints{0, 1, 2}));
  EXPECT_EQ(first.continues, (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(second.offsets, (Ints{0, 4, 8}));
  EXPECT_EQ(second.continues, (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(third.offsets, (Ints{0, 2, 4}));
  EXPECT_EQ(third.continues, (std::vector<uint8_t>{0, 1}));  // the document of one token, and the last goes on
  EXPECT_EQ(order.longest(), 10);

  const LaneOrder one(store(), 9, 1);
  EXPECT_EQ(one.batch(0, 0).offsets, (Ints{0, 8, 9}));
  EXPECT_EQ(one.batch(0, 1).offsets, (Ints{0, 1, 9}));
  EXPECT_EQ(one.batch(0, 1).continues, (std::vector<uint8_t>{1}));
}

TEST(LaneOrder, LanesThatHaveEndedHaveEmptySequences) {
  const LaneOrder order(store(), 2, 6);  // stretches of 4 rows: the last lane has none
  const Batch batch = order.batch(0, 1);
  EXPECT_EQ(batch.sequences(), 6);
  EXPECT_EQ(batch.offsets[6], batch.offsets[5]);
  EXPECT_EQ(batch.rows(), 10);
}

TEST(LaneOrder, RefusesMoreLanesThanTokens) {
  EXPECT_NE(kit::coded_error_of([] { LaneOrder(store(), 4, 21); }).find("2 lanes: the text has 20 tokens for 21 lanes"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
