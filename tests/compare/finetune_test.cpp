// How many times as fast one is as another, from rounds in which they took turns.
#include <gtest/gtest.h>

#include <cmath>

#include "lithe/compare/finetune.h"
#include "tests/compare/compare_kit.h"
#include "tests/support/errors.h"

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

TEST(Finetune, OneRunAloneNeedsATask) {
  const kit::CompareKit kit;
  for (const char* only : {"", "recipe/base/1"}) {
    const std::string error = kit::coded_error_of([&] {
      finetune({.models = {{.name = "recipe", .directory = ""}},
                .tasks = {kit.directory / "base.yaml"},
                .seeds = {1},
                .set = {},
                .out = kit.directory / "out",
                .only = only});
    });
    EXPECT_NE(error.find("has no section task that names examples"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace lithe::compare
