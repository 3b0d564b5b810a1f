#include "lithe/eval/misspell.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace lithe {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

TEST(Misspell, NoRateChangesNothing) { EXPECT_EQ(misspell("A fine film, isn't it?", 0, 1), "A fine film, isn't it?"); }

TEST(Misspell, OnlyLongWordsGetOneWrongLetterBehindTheirFirst) {
  const std::vector<std::string> before{"the", "wonderful", "was", "2024", "\xC3\xA9t\xC3\xA9", "evening", "d'art"};
  std::string text;
  for (const std::string& word : before) text += word + " ";
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<std::string> after = words_of(misspell(text, 1, seed));
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i].size() < 7) {
        EXPECT_EQ(after[i], before[i]);
      }
      EXPECT_EQ(after[i][0], before[i][0]);
      EXPECT_LE(std::abs(int(after[i].size()) - int(before[i].size())), 1);
    }
  }
}

TEST(Misspell, TheRateIsMet) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "abcdefgh ";
  int changed = 0;
  for (const std::string& word : words_of(misspell(text, 0.3, 7))) changed += word != "abcdefgh";
  EXPECT_NEAR(changed / 4000.0, 0.3, 4 * std::sqrt(0.3 * 0.7 / 4000));  // letters all differ: every edit shows
}

TEST(Misspell, IsAFunctionOfTextAndSeed) {
  const std::string text = "several different words stand here";
  EXPECT_EQ(misspell(text, 0.5, 3), misspell(text, 0.5, 3));
  int same = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) same += misspell(text, 1, seed) == misspell(text, 1, seed + 1);
  EXPECT_LE(same, 1);
}

}  // namespace
}  // namespace lithe
