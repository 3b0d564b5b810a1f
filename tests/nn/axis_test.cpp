#include "lithe/nn/axis.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace lithe {
namespace {

// Element (i, j) is 100 i + j.
Tensor numbered(int64_t rows, int64_t cols) {
  const Tensor x = empty({rows, cols}, DType::f64);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, double(100 * (i / cols) + i % cols));
  return x;
}

TEST(Axis, IsAProductOfDimensions) {
  const Axis queries = Axis::query_heads(6, 2, 4);
  EXPECT_EQ(queries.size(), 24);
  EXPECT_EQ(cat(queries), "2 key_heads x 3 queries x 4 head_width");
  EXPECT_EQ(queries.without(Dimension::head_width), Axis::query_heads(6, 2));
  EXPECT_EQ(cat(Axis(3) * Axis::hidden(5)), "3 x 5 hidden");
  EXPECT_EQ(shape_of({Axis::hidden(5), queries}), (Shape{5, 24}));
  EXPECT_EQ(count_of({Axis::hidden(5), queries}, Dimension::queries), 3);
  EXPECT_EQ(count_of({Axis::hidden(5), queries}, Dimension::taps), 0);
}

TEST(Slice, TakesWhatStaysOfEachFactor) {
  const Axes axes{Axis::hidden(3), Axis::query_heads(4, 2, 2)};
  const Tensor x = numbered(3, 8);
  // Head 1 of each group, channel 0 of it, of rows 2 and 0.
  const Slice slice = Slice::of(
      axes, {{Dimension::hidden, {3, {2, 0}}}, {Dimension::queries, {2, {1}}}, {Dimension::head_width, {2, {0}}}});
  EXPECT_EQ(kit::values(slice.taken(x)), (std::vector<double>{202, 206, 2, 6}));
  slice.put(x, zeros({2, 2}, DType::f64));
  EXPECT_EQ(value_at(x, 2), 0);
  EXPECT_EQ(value_at(x, 3), 3);
  const Tensor masked = numbered(3, 8);
  slice.mask(masked);
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(value_at(masked, i), i == 2 || i == 6 || i == 18 || i == 22 ? double(100 * (i / 8) + i % 8) : 0) << i;
}

TEST(Slice, AFactorOfAnotherCountKeepsAsLargeAPart) {
  const Selection half{{Dimension::hidden, {8, {0, 1, 2, 3}}}};
  EXPECT_EQ(kit::values(Slice::of({2, Axis::hidden(4)}, half).taken(numbered(2, 4))),
            (std::vector<double>{0, 1, 100, 101}));
  EXPECT_EQ(kit::coded_error_of([&] { Slice::of({Axis::hidden(5)}, half); }),
            "2 slice: 5 hidden do not divide as 8 to 4 do; keep another number");
}

TEST(Slice, OfASmallerTensorIsTheFirstOfEachDimension) {
  const Axes large{Axis(2) * Axis::hidden(3), Axis::key_heads(2, 2)},
      small{Axis(2) * Axis::hidden(2), Axis::head_width(1)};
  // Rows 0 and 1 of each half, the first channel of the first head.
  EXPECT_EQ(kit::values(Slice::first(large, small).taken(numbered(6, 4))), (std::vector<double>{0, 100, 300, 400}));
  EXPECT_EQ(larger_of(small, large, "x"), large);
  EXPECT_EQ(kit::coded_error_of([&] { Slice::first(small, large); }),
            "2 slice: 3 hidden are no slice of 2; choose fewer");
  EXPECT_EQ(kit::coded_error_of([&] { larger_of({Axis::hidden(2)}, {Axis::ffn(2)}, "x"); }),
            "2 slice: two tensors 'x' are of other dimensions, 2 hidden and 2 ffn; choose the same parts for both");
}

TEST(Slice, TilesRepeatEachFactor) {
  const Axes narrow{Axis::key_heads(2, 2)}, wide{Axis::key_heads(4, 2)};
  Tensor x = empty({4}, DType::f64);
  for (int64_t i = 0; i < 4; ++i) set_value(x, i, double(i));
  EXPECT_EQ(kit::values(Slice::tiled(narrow, wide).taken(x)), (std::vector<double>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(kit::coded_error_of([&] { Slice::tiled(narrow, {Axis::key_heads(3, 2)}); }),
            "2 slice: 2 key_heads do not tile to 3; choose a multiple");
}

}  // namespace
}  // namespace lithe
