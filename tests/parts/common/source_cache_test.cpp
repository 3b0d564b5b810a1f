#include "lithe/parts/common/source_cache.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace lithe {
namespace {

// oracle: mixer.cross
TEST(SourceCache, HoldsEachSequencesRows) {
  SourceCache cache(2, 5);
  const Tensor k = kit::normal({4, 2}, DType::f32, 1), v = kit::normal({4, 3}, DType::f32, 2);
  cache.fill(k, v, Sequences({0, 1, 4}));
  EXPECT_EQ(cache.tokens(), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(kit::bit_difference(cache.entries()[1].keys.pages[0], k.slice(1, 4)), "");
  EXPECT_EQ(kit::bit_difference(cache.entries()[0].values.pages[0], v.slice(0, 1)), "");
  EXPECT_EQ(cache.bytes(), 4 * 5 * 4);
}

TEST(SourceCache, ContinuationsShareRowsAndCountThem) {
  SourceCache cache(2, 2);
  const Tensor kv = kit::normal({4, 2}, DType::bf16, 1);
  cache.fill(kv, kv, Sequences({0, 1, 4}));
  cache.reorder({1, 1, 0});
  EXPECT_EQ(cache.tokens(), (std::vector<int64_t>{3, 3, 1}));
  EXPECT_EQ(cache.entries()[0].keys.pages[0].data<bf16>(), cache.entries()[1].keys.pages[0].data<bf16>());
  EXPECT_EQ(cache.bytes(), 7 * 2 * 2);
  cache.reorder({2});
  EXPECT_EQ(cache.bytes(), 1 * 2 * 2);
  cache.reorder({});
  EXPECT_EQ(cache.bytes(), 0);
}

// Sequences get their sources one after another.
TEST(SourceCache, ASequenceWithoutANewSourceKeepsItsOwn) {
  SourceCache cache(3, 4);
  const Tensor first = kit::normal({4, 2}, DType::f32, 1), second = kit::normal({2, 2}, DType::f32, 2);
  cache.fill(first, first, Sequences({0, 1, 1, 4}));
  EXPECT_EQ(cache.tokens(), (std::vector<int64_t>{1, 0, 3}));
  cache.fill(second, second, Sequences({0, 0, 2, 2}));
  EXPECT_EQ(cache.tokens(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(kit::bit_difference(cache.entries()[0].keys.pages[0], first.slice(0, 1)), "");
  EXPECT_EQ(kit::bit_difference(cache.entries()[1].keys.pages[0], second), "");
  EXPECT_EQ(kit::bit_difference(cache.entries()[2].values.pages[0], first.slice(1, 4)), "");
  // Keys of another number than the source's tokens: two of each.
  cache.fill(first, first, Sequences({0, 2, 2, 4}), Sequences({0, 5, 5, 5}));
  EXPECT_EQ(cache.tokens(), (std::vector<int64_t>{2, 2, 3}));
  EXPECT_EQ(kit::bit_difference(cache.entries()[0].keys.pages[0], first.slice(0, 2)), "");
}

TEST(SourceCache, TheTargetsLengthDoesNotMatter) {
  SourceCache cache(1, 2);
  const Tensor kv = kit::normal({3, 2}, DType::f32, 1);
  cache.fill(kv, kv, Sequences::single(3));
  cache.truncate(0, 0);
  EXPECT_EQ(cache.tokens(), (std::vector<int64_t>{3}));
  EXPECT_EQ(cache.bytes(), 3 * 2 * 4);
}

TEST(SourceCache, WrongUseIsRefused) {
  SourceCache cache(2, 2);
  const Tensor kv = kit::normal({3, 2}, DType::f32, 1);
  EXPECT_EQ(cache.bytes(), 0);
  EXPECT_EQ(kit::error_of([&] { cache.entries(); }), "cross-attention: the state has no source; give it one first");
  EXPECT_EQ(kit::error_of([&] { cache.reorder({0}); }), "cross-attention: the state has no source; give it one first");
  EXPECT_EQ(kit::error_of([&] { cache.fill(kv, kv, Sequences::single(3)); }),
            "cross-attention: the state holds 2 sequences, got sources of 1");
  EXPECT_EQ(cache.bytes(), 0);
  cache.fill(kv, kv, Sequences({0, 1, 3}));
  for (const int64_t from : {-1, 2})
    EXPECT_EQ(kit::error_of([&] {
                cache.reorder({0, from});
              }),
              cat("cross-attention: reorder from sequence ", from, " of 2"));
  EXPECT_EQ(cache.tokens(), (std::vector<int64_t>{1, 2}));
}

}  // namespace
}  // namespace lithe
