#include "lithe/ops/sequences.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(Sequences, KnowTheirRowsAndPositions) {
  const Sequences s({0, 2, 2, 5}, {7, 0, 1});
  EXPECT_EQ(s.count(), 3);
  EXPECT_EQ(s.rows(), 5);
  EXPECT_EQ(s.length(1), 0);
  EXPECT_EQ(s.past(2), 1);
  EXPECT_EQ(kit::values(s.positions()), (std::vector<double>{7, 8, 1, 2, 3}));
  EXPECT_EQ(Sequences({0, 3, 4}).last_rows(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(Sequences::single(3).past(0), 0);
}

TEST(Sequences, OnMetaHaveShapesOnly) {
  const Sequences s({0, 2, 5}, {}, Device::meta);
  EXPECT_TRUE(s.positions().is_meta());
  EXPECT_EQ(s.positions().numel(), 5);
}

TEST(Sequences, AreChecked) {
  EXPECT_EQ(kit::error_of([] { Sequences({1, 2}); }), "sequences: offsets must start with 0");
  EXPECT_EQ(kit::error_of([] {
              Sequences({0, 2, 1});
            }),
            "sequences: offsets must not decrease and past must not be negative (sequence 1)");
  EXPECT_EQ(kit::error_of([] {
              Sequences({0, 2}, {1, 2});
            }),
            "sequences: past must have one entry a sequence: 1, got 2");
  EXPECT_EQ(kit::error_of([] { Sequences({0, 0}).last_rows(); }), "sequences: sequence 0 is empty");
}

}  // namespace
}  // namespace lithe
