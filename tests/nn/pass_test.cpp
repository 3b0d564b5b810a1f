#include "lithe/nn/pass.h"

#include <gtest/gtest.h>

namespace lithe {
namespace {

TEST(PassStatistics, AreMeansByNameAndLayer) {
  Pass pass;
  EXPECT_FALSE(pass.wants_statistics());
  pass.want_statistics();
  const Pass layer = pass.within(2);
  EXPECT_TRUE(layer.wants_statistics());
  layer.add_statistic("share", {0.5, 0.25}, 1);
  layer.add_statistic("share", {0.1, 0.65}, 3);
  layer.add_statistic("entropy", {2}, 4);
  ASSERT_EQ(pass.statistics().size(), 2u);
  const std::vector<double> means = pass.statistics().at({"share", 2}).means();
  EXPECT_DOUBLE_EQ(means[0], 0.2);
  EXPECT_DOUBLE_EQ(means[1], 0.55);
  EXPECT_EQ(Statistic().means(), std::vector<double>());
}

TEST(PassStatistics, OfOtherLengthsStandApart) {
  Pass pass;
  pass.add_statistic("share", {1}, 1);
  pass.add_statistic("share", {0.5, 0.5}, 1);
  EXPECT_EQ(pass.statistics().count({"share", -1}), 1u);
  EXPECT_EQ(pass.statistics().count({"share_of_2", -1}), 1u);
}

TEST(PassStatistics, OfAPassApartComeOnlyWhenTaken) {
  Pass pass;
  for (int run = 0; run < 2; ++run) {  // the second runs again what the first did
    const Pass apart = pass.apart(1);
    EXPECT_FALSE(apart.has_notes());
    apart.add_statistic("share", {0.5}, 2);
    EXPECT_TRUE(apart.has_notes());
    if (run == 0) pass.take(apart, apart.noted(), 0);
  }
  EXPECT_EQ(pass.statistics().at({"share", 1}).weight, 2);
  Pass other;
  other.take_statistics(pass.statistics(), "encoder.");
  EXPECT_EQ(other.statistics().at({"encoder.share", 1}).means(), (std::vector<double>{0.5}));
}

}  // namespace
}  // namespace lithe
