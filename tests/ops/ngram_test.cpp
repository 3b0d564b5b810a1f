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
