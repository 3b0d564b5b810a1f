// How many times as fast one is as another, from rounds in which they took turns.
#include <gtest/gtest.h>

#include <cmath>

#include "lithe/compare/finetune.h"

namespace lithe::compare {
namespace {

TEST(FinetuneSpeed, IsTheMeanOfLogarithmsWithStudentsInterval) {
  // Ratios 2 and 8: their logarithms have mean log 4 and error log 2, and t(0.975; 1) = 12.7062.
  const auto ratio = speed_ratio({1, 1}, {2, 8});
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(ratio->value, 4, 1e-12);
  EXPECT_NEAR(std::log(ratio->high / 4), 12.7062 * std::log(2), 1e-3);
  EXPECT_NEAR(ratio->low * ratio->high, 16, 1e-9);
}

TEST(FinetuneSpeed, WhatSlowsTheMachineForARoundSlowsBoth) {
  const auto ratio = speed_ratio({1, 10, 3}, {2, 20, 6});
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(ratio->low, 2, 1e-9);
  EXPECT_NEAR(ratio->high, 2, 1e-9);
}

TEST(FinetuneSpeed, OfOneRoundNothingIsSaid) {
  EXPECT_FALSE(speed_ratio({1}, {2}));
  EXPECT_FALSE(speed_ratio({}, {}));
}

}  // namespace
}  // namespace lithe::compare
