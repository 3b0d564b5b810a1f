#include "lithe/ops/ngram.h"

#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "tests/support/numbers.h"

namespace lithe {
namespace {

using Ints = std::vector<int>;

Ints ints(const Tensor& t) { return {t.data<int32_t>(), t.data<int32_t>() + t.numel()}; }

// The numbers are those of the formula in another language's whole numbers: tables that were trained keep their sense.
TEST(Ngram, BucketsAreThoseOfTheFormula) {
  const NgramTokens tokens{kit::ids_of({5, 0, 5, 2, 5, 0})};
  EXPECT_EQ(ints(ngram_ids(tokens, 1, 1000)), (Ints{978, 465, 978, 53, 978, 465}));
  EXPECT_EQ(ints(ngram_ids(tokens, 2, 1000)), (Ints{-1, 221, 530, 581, 284, 221}));
  EXPECT_EQ(ints(ngram_ids(tokens, 3, 1000)), (Ints{-1, -1, 179, 869, 148, 219}));
}

TEST(Ngram, LiesWithinOneText) {
  const Tensor ids = kit::ids_of({5, 0, 5, 2, 5, 0});
  EXPECT_EQ(ints(ngram_ids({ids, kit::ids_of({0, 1, 0, 1, 2, 3})}, 2, 1000)), (Ints{-1, 221, -1, 581, 284, 221}));
  EXPECT_EQ(ints(ngram_ids({ids, kit::ids_of({0, 1, 0, 1, 2, 3}), kit::ids_of({0, 0, 0, 0, 1, 1})}, 2, 1000)),
            (Ints{-1, 221, -1, 581, -1, 221}));
  EXPECT_EQ(ints(ngram_ids({ids, {}, kit::ids_of({0, 0, 0, 1, 1, 1})}, 3, 1000)), (Ints{-1, -1, 179, -1, -1, 219}));
}

TEST(Ngram, IsSharedByTheOtherTextOfItsSequence) {
  const Tensor ids = kit::ids_of({7, 3, 4, 9, 3, 4, 7, 3, 4, 3, 4, 4}),
               positions = kit::ids_of({0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 0, 1}),
               segments = kit::ids_of({0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1});
  EXPECT_EQ(ints(shared_ngrams({ids, positions, segments}, 1)), (Ints{-1, 0, 0, -1, 1, 1, -1, 0, -1, 1, 0, 1}));
  EXPECT_EQ(ints(shared_ngrams({ids, positions, segments}, 2)), (Ints{-1, -1, 0, -1, -1, 1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(ints(shared_ngrams({ids, positions}, 1)), Ints(12, -1));
}

TEST(Ngram, ALinearModelReadsEachNgramOfASegmentOnce) {
  const Tensor ids = kit::ids_of({7, 3, 7, 3, 7, 3, 4}), positions = kit::ids_of({0, 1, 2, 3, 0, 1, 2}),
               segments = kit::ids_of({0, 0, 1, 1, 0, 0, 0});
  const auto buckets = [&](const Tensor& of, int64_t order, bool shared = false) {
    return ints(distinct_ngrams({ids, positions, of}, order, 1 << 30, shared));
  };
  const Ints plain = buckets({}, 1);
  EXPECT_EQ(plain[0], plain[4]);  // of another sequence
  EXPECT_NE(plain[0], plain[1]);
  EXPECT_EQ(Ints(plain.begin() + 2, plain.begin() + 4), (Ints{-1, -1}));
  const Ints apart = buckets(segments, 1);
  EXPECT_EQ(apart[0], plain[0]);
  EXPECT_GE(apart[2], 0);
  EXPECT_NE(apart[2], apart[0]);  // the same word of the other text
  const Ints pairs = buckets(segments, 2);
  EXPECT_EQ(pairs[0], -1);
  EXPECT_GE(pairs[1], 0);
  EXPECT_EQ(pairs[2], -1);  // no n-gram lies across two texts
  EXPECT_EQ(pairs[5], pairs[1]);
  const Ints shared = buckets(segments, 1, true);
  EXPECT_EQ(Ints(shared.begin() + 2, shared.end()), (Ints{-1, -1, -1, -1, -1}));  // once a sequence
  EXPECT_GE(shared[0], 0);
  EXPECT_NE(shared[0], apart[0]);
  EXPECT_THROW(distinct_ngrams({ids}, 1, 0), Error);
}

TEST(Ngram, CodesAreTokensByTheirHash) {
  const Tensor codes = zeros({3, 2}, DType::i32);
  for (int i = 0; i < 6; ++i) codes.data<int32_t>()[i] = i < 4 ? i % 2 : 7;
  const Ints of = ints(hashed_tokens(codes));
  EXPECT_EQ(of[0], of[1]);
  EXPECT_NE(of[0], of[2]);
  EXPECT_EQ(ints(hashed_tokens(kit::ids_of({4, 9}))), (Ints{4, 9}));
}

TEST(Ngram, RefusesWhatItCannotRead) {
  const NgramTokens tokens{kit::ids_of({5, 0})};
  EXPECT_THROW(ngram_ids(tokens, 0, 10), Error);
  EXPECT_THROW(ngram_ids(tokens, 9, 10), Error);
  EXPECT_THROW(ngram_ids(tokens, 2, 0), Error);
  EXPECT_THROW(ngram_ids({tokens.ids, kit::ids_of({0})}, 2, 10), Error);
  EXPECT_THROW(shared_ngrams({tokens.ids, {}, kit::ids_of({0, 0, 1})}, 1), Error);
  EXPECT_THROW(ngram_ids({}, 1, 10), Error);
}

}  // namespace
}  // namespace lithe
