#include "lithe/eval/error_rate.h"

#include <gtest/gtest.h>

namespace lithe {
namespace {

TEST(ErrorRate, CountsEditsOfWordsAndCharacters) {
  const Edits words = word_edits("the cat  sat on the mat", "the cat sat the big mat"),
              characters = character_edits("zwölf  eins", "zwolf eins");
  EXPECT_EQ(words.edits, 2);
  EXPECT_EQ(words.units, 6);
  EXPECT_EQ(characters.edits, 1);
  EXPECT_EQ(characters.units, 10);
  EXPECT_EQ(word_edits("", "a b").edits, 2);
  EXPECT_EQ(word_edits("", "").units, 0);
}

TEST(ErrorRate, IsOfAllTextsTogetherWithAnInterval) {
  std::vector<Edits> texts;
  for (int i = 0; i < 100; ++i) texts.push_back({i % 4 == 0, 2});
  const ErrorRate rate = error_rate(texts);
  EXPECT_EQ(rate.edits, 25);
  EXPECT_EQ(rate.units, 200);
  EXPECT_DOUBLE_EQ(rate.rate, 0.125);
  // The share of a quarter of 100 draws: 1.96 sqrt(0.25 0.75 / 100) / 2 to either side.
  EXPECT_NEAR(rate.low, 0.125 - 0.0424, 0.01);
  EXPECT_NEAR(rate.high, 0.125 + 0.0424, 0.01);
  EXPECT_EQ(error_rate(texts).low, rate.low);
  EXPECT_EQ(error_rate({}).rate, 0);
  EXPECT_EQ(error_rate({{0, 5}, {0, 3}}).high, 0);
}

}  // namespace
}  // namespace lithe
