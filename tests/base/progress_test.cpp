#include "lithe/base/progress.h"

#include <gtest/gtest.h>

namespace lithe {
namespace {

int lines(int64_t reports, int64_t all) {
  LogPace pace;
  int out = 0;
  for (int64_t i = 1; i <= reports; ++i) out += pace.due(i, all);
  return out;
}

TEST(LogPace, ALogHasSomeTwentyLinesHoweverLongATaskIs) {
  EXPECT_EQ(lines(1, 1), 1);
  EXPECT_EQ(lines(10, 10), 10);
  EXPECT_EQ(lines(20, 20), 20);
  EXPECT_EQ(lines(37, 37), 20);
  EXPECT_EQ(lines(100'000, 100'000), 20);
  EXPECT_EQ(lines(50'000, 100'000), 10);  // stopped
  EXPECT_LE(lines(100'000, 0), 30);       // no end is known
  EXPECT_GE(lines(100'000, 0), 20);
  LogPace resumed;
  EXPECT_TRUE(resumed.due(900, 1000));
  EXPECT_FALSE(resumed.due(901, 1000));
  EXPECT_TRUE(resumed.due(950, 1000));
  EXPECT_TRUE(resumed.due(1000, 1000));
}

}  // namespace
}  // namespace lithe
