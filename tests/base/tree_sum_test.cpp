#include "lithe/base/tree_sum.h"

#include <gtest/gtest.h>

#include <string>

namespace lithe {
namespace {

struct Term {
  std::string text;
  Term& operator+=(Term&& other) {
    text = "(" + text + other.text + ")";
    return *this;
  }
};

std::string sum_of(int64_t begin, int64_t end) {
  TreeSum<Term> sum;
  for (int64_t i = begin; i < end; ++i) sum.add({std::string(1, char('a' + i))});
  return sum.take().text;
}

TEST(TreeSum, TheLeftHalfIsTheLargestPowerOfTwo) {
  EXPECT_EQ(sum_of(0, 1), "a");
  EXPECT_EQ(sum_of(0, 2), "(ab)");
  EXPECT_EQ(sum_of(0, 3), "((ab)c)");
  EXPECT_EQ(sum_of(0, 7), "(((ab)(cd))((ef)g))");
  EXPECT_EQ(sum_of(0, 8), "(((ab)(cd))((ef)(gh)))");
}

TEST(TreeSum, TwoWhoShareTheTermsGiveTheSameSum) {
  for (int64_t n = 5; n <= 8; ++n) EXPECT_EQ("(" + sum_of(0, 4) + sum_of(4, n) + ")", sum_of(0, n));
}

}  // namespace
}  // namespace lithe
