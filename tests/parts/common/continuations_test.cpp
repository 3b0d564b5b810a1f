#include "lithe/parts/common/continuations.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace lithe {
namespace {

// What an entry costs to keep: how often it was copied.
struct Counted {
  int64_t value = 0, copies = 0;
};

TEST(Continuation, TheLastThatGoesOnHasTheEntryItself) {
  std::vector<Counted> entries{{10}, {11}, {12}};
  const auto copy = [](const Counted& x) { return Counted{x.value, x.copies + 1}; };
  const std::vector<int64_t> from{2, 0, 2, 2};
  Continuation("test", from, entries.size()).apply(entries, copy);
  ASSERT_EQ(entries.size(), 4u);
  const std::vector<std::pair<int64_t, int64_t>> want{{12, 1}, {10, 0}, {12, 1}, {12, 0}};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(std::make_pair(entries[i].value, entries[i].copies), want[i]) << i;
}

TEST(Continuation, RefusesBeforeItChangesAnything) {
  TokenCounts counts("test", 2);
  counts.set({5, 7});
  std::vector<int64_t> one{1, 2}, other{3, 4};
  for (const int64_t wrong : {int64_t(-1), int64_t(2)})
    EXPECT_EQ(kit::error_of([&] {
                counts.reorder({0, wrong}, one, other);
              }),
              cat("test: reorder from sequence ", wrong, " of 2"));
  EXPECT_EQ(counts.all(), (std::vector<int64_t>{5, 7}));
  EXPECT_EQ(one, (std::vector<int64_t>{1, 2}));
  counts.reorder({1, 1, 0}, one, other);
  EXPECT_EQ(counts.all(), (std::vector<int64_t>{7, 7, 5}));
  EXPECT_EQ(one, (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(other, (std::vector<int64_t>{4, 4, 3}));
  counts.reorder({}, one, other);
  EXPECT_TRUE(counts.all().empty() && one.empty() && other.empty());
}

TEST(Continuation, WhatIsWrittenInPlaceGrowsApart) {
  TokenCounts counts("test", 1);
  std::vector<Tensor> states{tensor_of({1}, std::vector<float>{1})};
  counts.reorder_apart({0, 0}, states, [](const Tensor& x) { return clone(x); });
  set_value(states[0], 0, 2);
  EXPECT_EQ(value_at(states[1], 0), 1);
}

}  // namespace
}  // namespace lithe
