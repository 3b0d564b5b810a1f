#include "lithe/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "files_for_tests.h"
#include "lithe/base/random.h"
#include "tests/data/store_kit.h"

namespace lithe {

void PrintTo(const Batch& b, std::ostream* out) {
  for (const auto* ids : {&b.tokens, &b.labels}) {
    for (const int32_t id : *ids) *out << id << " ";
    *out << "| ";
  }
  for (const int64_t o : b.offsets) *out << o << " ";
}

namespace {

TokenStore store_of(const std::vector<Ids>& documents, std::optional<int32_t> begin, std::optional<int32_t> end,
                    int64_t vocab_size = 1000) {
  return TokenStore::from_documents(documents, {.vocab_size = vocab_size, .begin_of_text = begin, .end_of_text = end});
}

Batch made(Ids tokens, Ids labels, std::vector<int64_t> offsets) {
  return {std::move(tokens), std::move(labels), std::move(offsets)};
}

TEST(Batches, RowsStandBetweenEndOfTextTokens) {
  const BatchOrder order(store_of({{11, 12, 13}, {21}}, 0, 0), 8, 100, 1, false);
  EXPECT_EQ(order.rows_per_epoch(), 6);
  EXPECT_EQ(order.batches_per_epoch(), 1);
  EXPECT_EQ(order.batch(0, 0), made({0, 11, 12, 13, 0, 21}, {11, 12, 13, 0, 21, 0}, {0, 4, 6}));
}

TEST(Batches, RowsWithoutSpecialsPredictOnlyWithinTheText) {
  const BatchOrder order(store_of({{11, 12, 13}, {21}, {31, 32}, {}}, {}, {}), 8, 100, 1, false);
  EXPECT_EQ(order.rows_per_epoch(), 3);
  EXPECT_EQ(order.batch(0, 0), made({11, 12, 31}, {12, 13, 32}, {0, 2, 3}));
}

TEST(Batches, RowsWithDifferentOrSingleSpecials) {
  const std::vector<Ids> documents = {{11, 12}, {21}};
  EXPECT_EQ(BatchOrder(store_of(documents, 1, 2), 8, 100, 1, false).batch(0, 0),
            made({1, 11, 12, 1, 21}, {11, 12, 2, 21, 2}, {0, 3, 5}));
  EXPECT_EQ(BatchOrder(store_of(documents, 1, {}), 8, 100, 1, false).batch(0, 0),
            made({1, 11, 1}, {11, 12, 21}, {0, 2, 3}));
  EXPECT_EQ(BatchOrder(store_of(documents, {}, 2), 8, 100, 1, false).batch(0, 0),
            made({11, 12, 21}, {12, 2, 2}, {0, 2, 3}));
}

TEST(Batches, LongDocumentsAreCutIntoPiecesAndKeepTheirLabels) {
  const BatchOrder order(store_of({{1, 2, 3, 4, 5, 6, 7}, {8, 9}}, 0, 0), 3, 100, 1, false);
  EXPECT_EQ(order.batch(0, 0),
            made({0, 1, 2, 3, 4, 5, 6, 7, 0, 8, 9}, {1, 2, 3, 4, 5, 6, 7, 0, 8, 9, 0}, {0, 3, 6, 8, 11}));
}

TEST(Batches, ABatchEdgeCutsAPieceInTwoSequences) {
  const BatchOrder order(store_of({{1, 2, 3, 4, 5, 6, 7}, {8, 9}}, 0, 0), 6, 4, 1, false);
  ASSERT_EQ(order.batches_per_epoch(), 3);
  EXPECT_EQ(order.batch(0, 0), made({0, 1, 2, 3}, {1, 2, 3, 4}, {0, 4}));
  EXPECT_EQ(order.batch(0, 1), made({4, 5, 6, 7}, {5, 6, 7, 0}, {0, 2, 4}));
  EXPECT_EQ(order.batch(0, 2), made({0, 8, 9}, {8, 9, 0}, {0, 3}));
  EXPECT_EQ(order.batch(7, 2), order.batch(0, 2));
}

TEST(Batches, AnEpochShorterThanABatchIsRepeatedInTraining) {
  const BatchOrder order(store_of({{1, 2}, {3}}, 0, 0), 8, 12, 4);
  EXPECT_EQ(order.rows_per_epoch(), 5);
  ASSERT_EQ(order.batches_per_epoch(), 1);
  const Batch batch = order.batch(0, 0);
  ASSERT_EQ(batch.rows(), 12);
  std::map<int32_t, int> seen;
  for (const int32_t label : batch.labels) ++seen[label];
  EXPECT_EQ(Ids(batch.tokens.begin(), batch.tokens.begin() + 5),
            Ids(batch.tokens.begin() + 5, batch.tokens.begin() + 10));
  EXPECT_GE(seen[1], 2);
  EXPECT_GE(seen[3], 2);
  for (int64_t b = 0; b < batch.sequences(); ++b) EXPECT_EQ(batch.tokens[size_t(batch.offsets[size_t(b)])], 0);
  EXPECT_EQ(batch.sequences(), 5);
}

TEST(Batches, ExactlyOneBatchIsNotRepeated) {
  const BatchOrder order(store_of({{1, 2}, {3}}, 0, 0), 8, 5, 4);
  const Batch batch = order.batch(0, 0);
  EXPECT_EQ(batch.sequences(), 2);
  EXPECT_EQ(std::multiset<int32_t>(batch.labels.begin(), batch.labels.end()), (std::multiset<int32_t>{0, 0, 1, 2, 3}));
}

TEST(Batches, RefusesWhatCannotBe) {
  const auto store = store_of({{1, 2}}, 0, 0);
  expect_error([&] { BatchOrder(store, 0, 4, 1); }, {"sequence_length must be at least 1, got 0"}, ExitCode::usage);
  expect_error([&] { BatchOrder(store, 4, 0, 1); }, {"batch_tokens must be at least 1, got 0"}, ExitCode::usage);
  expect_error([&] { BatchOrder(store_of({{1}, {2}}, {}, {}), 4, 4, 1); }, {"no token with a next token"});
  expect_error([&] { BatchOrder(TokenStore(), 4, 4, 1); }, {"no token with a next token"});
  const BatchOrder order(store, 4, 2, 1);
  expect_error([&] { order.batch(0, 2); }, {"batch 2 of epoch 0 does not exist; an epoch has 2"});
  expect_error([&] { order.batch(-1, 0); }, {"batch 0 of epoch -1 does not exist"});
}

// Documents whose tokens are all different, so that each row tells where it comes from: ids count up from 1 through all
// documents.
struct Numbered {
  TokenStore store;
  std::vector<int32_t> document_of;  // by id
  int64_t rows = 0;
};

Numbered random_corpus(const RandomKey& key, bool begin, bool end) {
  Numbered corpus;
  std::vector<Ids> documents(1 + random_below(key, 0, 30));
  corpus.document_of.push_back(-1);
  int32_t id = 1;
  for (size_t d = 0; d < documents.size(); ++d) {
    const uint64_t length = random_below(key, 1 + d, d % 3 == 0 ? 60 : 8);
    for (uint64_t i = 0; i < length; ++i) {
      documents[d].push_back(id++);
      corpus.document_of.push_back(int32_t(d));
    }
    if (length > 0) corpus.rows += int64_t(length) - 1 + begin + end;
  }
  const auto special = [](bool there) { return there ? std::optional<int32_t>(0) : std::nullopt; };
  corpus.store = store_of(documents, special(begin), special(end), id + 1);
  return corpus;
}

Numbered corpus_of_many_rows() {
  for (uint64_t step = 0;; ++step)
    if (Numbered corpus = random_corpus({.seed = 5, .step = step}, true, true); corpus.rows > 250) return corpus;
}

// The rows of a batch as (token, label), after checking that no sequence is longer than allowed, holds two documents,
// or skips a row.
std::vector<std::pair<int32_t, int32_t>> checked_rows(const Numbered& corpus, const Batch& batch,
                                                      int64_t sequence_length) {
  std::vector<std::pair<int32_t, int32_t>> rows;
  EXPECT_EQ(batch.offsets.front(), 0);
  EXPECT_EQ(batch.offsets.back(), batch.rows());
  EXPECT_EQ(batch.labels.size(), batch.tokens.size());
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    std::set<int32_t> documents;
    const int64_t first = batch.offsets[size_t(b)], last = batch.offsets[size_t(b + 1)];
    EXPECT_GT(last, first);
    EXPECT_LE(last - first, sequence_length);
    for (int64_t n = first; n < last; ++n) {
      const int32_t token = batch.tokens[size_t(n)], label = batch.labels[size_t(n)];
      if (token) documents.insert(corpus.document_of[size_t(token)]);
      if (label) documents.insert(corpus.document_of[size_t(label)]);
      if (n + 1 < last) {
        EXPECT_EQ(label, batch.tokens[size_t(n + 1)]);
      }
      if (token && label) {
        EXPECT_EQ(label, token + 1);
      }
      rows.emplace_back(token, label);
    }
    EXPECT_EQ(documents.size(), 1u) << "a sequence with rows of two documents";
  }
  return rows;
}

// oracle: data.batch_pad
TEST(Batches, EachRowComesOncePerEpochAndFromOneDocument) {
  int tried = 0;
  for (uint64_t round = 0; round < 200; ++round) {
    const RandomKey key{.seed = 11, .step = round};
    const bool begin = round % 2, end = round % 4 < 2;
    const Numbered corpus = random_corpus(key, begin, end);
    if (corpus.rows == 0) continue;
    ++tried;
    const auto length = int64_t(1 + random_below(key, 1000, 20)), tokens = int64_t(1 + random_below(key, 1001, 40));
    const BatchOrder in_order(corpus.store, length, tokens, 0, false), shuffled(corpus.store, length, tokens, round);
    ASSERT_EQ(in_order.rows_per_epoch(), corpus.rows);

    std::vector<std::pair<int32_t, int32_t>> all;
    ASSERT_EQ(in_order.batches_per_epoch(), (corpus.rows + tokens - 1) / tokens);
    for (int64_t i = 0; i < in_order.batches_per_epoch(); ++i) {
      const Batch batch = in_order.batch(0, i);
      EXPECT_EQ(batch.rows(), std::min(tokens, corpus.rows - i * tokens));
      const auto rows = checked_rows(corpus, batch, length);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    ASSERT_EQ(int64_t(all.size()), corpus.rows);
    // In order, each id comes as a label once and in rising order; without `begin` the first of each document is no
    // label.
    int32_t previous = 0;
    std::multiset<std::pair<int32_t, int32_t>> whole(all.begin(), all.end());
    for (const auto& [token, label] : all)
      if (label) {
        EXPECT_GT(label, previous);
        previous = label;
      }
    if (begin) {
      EXPECT_EQ(previous, int32_t(corpus.document_of.size()) - 1);
    }

    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::multiset<std::pair<int32_t, int32_t>> seen;
      for (int64_t i = 0; i < shuffled.batches_per_epoch(); ++i) {
        const Batch batch = shuffled.batch(epoch, i);
        ASSERT_EQ(batch.rows(), corpus.rows < tokens ? tokens : std::min(tokens, corpus.rows - i * tokens));
        for (const auto& row : checked_rows(corpus, batch, length)) seen.insert(row);
      }
      if (corpus.rows < tokens) {
        for (const auto& row : whole) EXPECT_GE(seen.count(row), size_t(tokens / corpus.rows) * whole.count(row));
        continue;
      }
      EXPECT_EQ(seen, whole) << "a row twice in an epoch, or left out";
    }
    if (testing::Test::HasFailure())
      FAIL() << "round " << round << ", sequence_length " << length << ", batch_tokens " << tokens;
  }
  EXPECT_GT(tried, 150);
}

TEST(Batches, ABatchIsAPureFunctionOfSeedEpochAndIndex) {
  const Numbered corpus = corpus_of_many_rows();
  const BatchOrder a(corpus.store, 7, 16, 9), b(corpus.store, 7, 16, 9), other(corpus.store, 7, 16, 10);
  const int64_t n = a.batches_per_epoch();
  ASSERT_GT(n, 3);
  std::map<std::pair<int64_t, int64_t>, Batch> forward;
  for (int64_t e = 0; e < 5; ++e)
    for (int64_t i = 0; i < n; ++i) forward[{e, i}] = a.batch(e, i);
  int differing_seed = 0, differing_epoch = 0;
  for (uint64_t k = 0; k < 300; ++k) {
    const auto e = int64_t(random_below({.seed = 6}, 2 * k, 5)),
               i = int64_t(random_below({.seed = 6}, 2 * k + 1, uint64_t(n)));
    EXPECT_EQ((forward[{e, i}]), b.batch(e, i));
    differing_seed += other.batch(e, i) != b.batch(e, i);
    differing_epoch += b.batch(e + 1, i) != b.batch(e, i);
  }
  EXPECT_GT(differing_seed, 290);
  EXPECT_GT(differing_epoch, 290);
}

TEST(Batches, ManyThreadsMayAskAtOnce) {
  const Numbered corpus = corpus_of_many_rows();
  const BatchOrder order(corpus.store, 7, 16, 9);
  const int64_t n = order.batches_per_epoch();
  std::vector<Batch> expected;
  for (int64_t e = 0; e < 6; ++e)
    for (int64_t i = 0; i < n; ++i) expected.push_back(order.batch(e, i));
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < 2 * expected.size(); ++k) {
        const size_t at = (k * 7 + t * 13) % expected.size();
        wrong[t] += order.batch(int64_t(at) / n, int64_t(at) % n) != expected[at];
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

// Every place of the permutation is equally likely: the mean and spread of where piece 0 lands are those of the uniform
// law.
TEST(Batches, TheShuffleIsUniform) {
  std::vector<Ids> documents;
  for (int32_t d = 0; d < 10; ++d) documents.push_back({d + 1});
  const BatchOrder order(store_of(documents, 0, {}), 1, 1, 3);
  std::vector<int> places(10);
  const int epochs = 5000;
  for (int64_t e = 0; e < epochs; ++e)
    for (int64_t i = 0; i < 10; ++i)
      if (order.batch(e, i).labels[0] == 1) ++places[size_t(i)];
  double chi_squared = 0;
  for (const int count : places) chi_squared += (count - epochs / 10.0) * (count - epochs / 10.0) / (epochs / 10.0);
  EXPECT_LT(chi_squared, 27.9);  // 99.9 % point of chi squared with 9 degrees of freedom
}

TEST(Batches, WideIdsAreRead) {
  const BatchOrder order(store_of({{70000, 5, 99999}}, 65536, 65536, 100000), 8, 10, 1, false);
  EXPECT_EQ(order.batch(0, 0), made({65536, 70000, 5, 99999}, {70000, 5, 99999, 65536}, {0, 4}));
}

// ---- with a frame: what encoders read

// Every piece of a document stands between the frame's specials, whatever the store's own are.
TEST(FramedBatches, PiecesStandBetweenTheSpecialsAndHaveNoLabels) {
  const auto store = store_of({{11, 12, 13, 14, 15}, {}, {21}}, 7, 8);
  const auto framed = [&](int64_t length, std::optional<int32_t> begin, std::optional<int32_t> end) {
    return BatchOrder(store, length, 100, 1, false, SequenceFrame{begin, end}).batch(0, 0);
  };
  EXPECT_EQ(framed(4, 1, 2), made({1, 11, 12, 2, 1, 13, 14, 2, 1, 15, 2, 1, 21, 2}, {}, {0, 4, 8, 11, 14}));
  EXPECT_EQ(framed(9, 1, 2), made({1, 11, 12, 13, 14, 15, 2, 1, 21, 2}, {}, {0, 7, 10}));
  EXPECT_EQ(framed(7, 1, 2), framed(9, 1, 2));
  EXPECT_EQ(framed(3, 1, {}), made({1, 11, 12, 1, 13, 14, 1, 15, 1, 21}, {}, {0, 3, 6, 8, 10}));
  EXPECT_EQ(framed(3, {}, 2), made({11, 12, 2, 13, 14, 2, 15, 2, 21, 2}, {}, {0, 3, 6, 8, 10}));
  EXPECT_EQ(framed(3, {}, {}), made({11, 12, 13, 14, 15, 21}, {}, {0, 3, 5, 6}));
}

TEST(FramedBatches, ABatchEdgeCutsAPieceInTwoSequences) {
  const auto store = store_of({{11, 12, 13}, {21}}, {}, {});
  for (int64_t edge = 1; edge <= 8; ++edge) {
    const BatchOrder order(store, 5, edge, 1, false, SequenceFrame{1, 2});
    EXPECT_EQ(order.rows_per_epoch(), 8);
    Ids all;
    for (int64_t i = 0; i < order.batches_per_epoch(); ++i) {
      const Batch batch = order.batch(0, i);
      EXPECT_EQ(batch.rows(), std::min(edge, 8 - i * edge));
      all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
    }
    EXPECT_EQ(all, (Ids{1, 11, 12, 13, 2, 1, 21, 2})) << edge;
  }
}

TEST(FramedBatches, EachTokenComesOncePerEpoch) {
  for (uint64_t round = 0; round < 60; ++round) {
    const RandomKey key{.seed = 12, .step = round};
    const Numbered corpus = random_corpus(key, false, false);
    const auto tokens = int64_t(corpus.document_of.size()) - 1;
    if (tokens == 0) continue;
    const SequenceFrame frame{round % 2 ? std::optional(0) : std::nullopt,
                              round % 4 < 2 ? std::optional(0) : std::nullopt};
    const int64_t specials = int64_t(frame.begin.has_value()) + int64_t(frame.end.has_value());
    const auto length = specials + int64_t(1 + random_below(key, 1000, 9));
    const BatchOrder order(corpus.store, length, 1, round, true, frame);
    Ids seen;
    int64_t around = 0;
    for (int64_t i = 0; i < order.batches_per_epoch(); ++i)
      for (const int32_t token : order.batch(1, i).tokens)
        if (token)
          seen.push_back(token);
        else
          ++around;
    EXPECT_EQ(around, order.rows_per_epoch() - tokens);
    ASSERT_EQ(int64_t(seen.size()), tokens) << round;
    std::sort(seen.begin(), seen.end());
    for (int64_t i = 0; i < tokens; ++i) EXPECT_EQ(seen[size_t(i)], i + 1);
    // No sequence, whole, is longer than allowed.
    const BatchOrder whole(corpus.store, length, 10000, round, false, frame);
    for (const int64_t n : sequence_lengths(whole.batch(0, 0))) EXPECT_LE(n, length);
  }
}

TEST(FramedBatches, CodesHaveTheirWidth) {
  const auto store = TokenStore::from_documents({{5, 70, 71, 5, 80, 81, 5, 90, 91}, {5, 100, 101}},
                                                {.vocab_size = 6, .token_width = 3});
  const BatchOrder order(store, 4, 100, 1, false, SequenceFrame{0, 2});
  const Batch batch = order.batch(0, 0);
  EXPECT_EQ(batch.token_width, 3);
  EXPECT_EQ(batch.rows(), 10);
  EXPECT_EQ(batch.offsets, (std::vector<int64_t>{0, 4, 7, 10}));
  EXPECT_EQ(batch.tokens, (Ids{0, 0, 0, 5, 70,  71,  5, 80, 81, 2, 0, 0,  //
                               0, 0, 0, 5, 90,  91,  2, 0,  0,            //
                               0, 0, 0, 5, 100, 101, 2, 0,  0}));
  EXPECT_TRUE(batch.labels.empty());
  for (int64_t i = 0; i < 5; ++i) {  // cut anywhere
    const Batch part = BatchOrder(store, 4, 2, 1, false, SequenceFrame{0, 2}).batch(0, i);
    EXPECT_EQ(part.tokens, Ids(batch.tokens.begin() + 6 * i, batch.tokens.begin() + 6 * i + 6));
  }
}

TEST(FramedBatches, RefusesWhatCannotBe) {
  const auto store = store_of({{1, 2}}, 0, 0);
  expect_error(
      [&] {
        BatchOrder(store, 2, 4, 1, true, SequenceFrame{1, 2});
      },
      {"sequence_length must be above the 2 specials around each sequence, got 2"}, ExitCode::usage);
  expect_error([] { BatchOrder(TokenStore(), 4, 4, 1, true, SequenceFrame{1, 2}); }, {"give more text"});
  const auto codes = TokenStore::from_documents({{5, 70, 5, 80}}, {.vocab_size = 6, .token_width = 2});
  expect_error([&] { BatchOrder(codes, 4, 4, 1); }, {"the next token can only be predicted where tokens are ids"});
}

// oracle: data.batch_pad
TEST(PaddingWaste, ExampleOfTheSource) {
  // {ABCDEF, MN, RST, WXYZ}: a block of 4 x 6 with 24 - 15 = 9 pads.
  EXPECT_DOUBLE_EQ(padding_waste({6, 2, 3, 4}), 9.0 / 24.0);
  EXPECT_DOUBLE_EQ(padding_waste({5, 5, 5}), 0);
  EXPECT_DOUBLE_EQ(padding_waste({}), 0);
  EXPECT_DOUBLE_EQ(padding_waste({0}), 0);
  const BatchOrder order(store_of({{1, 2, 3, 4, 5, 6}, {7, 8}, {9, 10, 11}, {12, 13, 14, 15}}, 0, {}), 8, 100, 1,
                         false);
  EXPECT_EQ(sequence_lengths(order.batch(0, 0)), (std::vector<int64_t>{6, 2, 3, 4}));
}

}  // namespace
}  // namespace lithe
