#include <gtest/gtest.h>

#include "tests/parts/combiner/combiner_kit.h"

namespace lithe {
namespace {

// oracle: syn.combine
TEST(SumCombiner, AddsRowsAndDoesNotMindTheOrder) {
  kit::Combining sum("sum");
  EXPECT_EQ(sum.bench.parameters().count(), 0);
  const Rows a = kit::some_rows({0, 3, 5}, 1), b = kit::some_rows({0, 3, 5}, 2);
  const Tensor y = sum({a, b}).x.value();
  for (int64_t i = 0; i < y.numel(); ++i)
    EXPECT_EQ(value_at(y, i), value_at(a.x.value(), i) + value_at(b.x.value(), i));
  EXPECT_EQ(kit::bit_difference(y, sum({b, a}).x.value()), "");
  EXPECT_EQ(
      kit::error_of([&] {
        sum({a, kit::some_rows({0, 2, 5}, 2)});
      }),
      "combiner: the encoders give texts of unlike lengths (5 and 5 rows in all); where they read the same tokens, "
      "give align: words or phrases, else combine by concat_len or pool");
}

// The example of TB 6.2.4: 9 words, phrases of words 1-4, 5-8 and 9.
// oracle: ms.multi_encoder
TEST(SumCombiner, AlignsWordsAndPhrases) {
  const Rows words = kit::some_rows({0, 9}, 1);
  const Rows phrases = kit::some_phrases(words, {0, 0, 0, 0, 1, 1, 1, 1, 2}, {0, 3}, 2);
  const Rows by_words = kit::Combining("sum", "{align: words}")({phrases, words});
  EXPECT_EQ(by_words.sequences.offsets(), (std::vector<int64_t>{0, 9}));
  const Rows by_phrases = kit::Combining("sum", "{align: phrases}")({phrases, words});
  EXPECT_EQ(by_phrases.sequences.offsets(), (std::vector<int64_t>{0, 3}));
  for (int64_t c = 0; c < 4; ++c) {
    EXPECT_EQ(value_at(by_words.x.value(), 6 * 4 + c),
              value_at(words.x.value(), 6 * 4 + c) + value_at(phrases.x.value(), 4 + c));
    double mean = 0;
    for (int64_t j = 4; j < 8; ++j) mean += value_at(words.x.value(), j * 4 + c) / 4;
    EXPECT_NEAR(value_at(by_phrases.x.value(), 4 + c), mean + value_at(phrases.x.value(), 4 + c), 1e-14);
  }
  EXPECT_NE(kit::error_of([&] {
              kit::Combining("sum", "{align: phrases}")({words, words});
            }).find("none has one"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
