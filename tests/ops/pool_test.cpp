#include "lithe/ops/pool.h"

#include <algorithm>
#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

const Sequences& three() {
  static const Sequences sequences({0, 4, 5, 7});
  return sequences;
}

// Column by column, in plain arithmetic.
Tensor pooled(const Tensor& x, const Sequences& sequences, const std::string& kind) {
  const Tensor out = empty({sequences.count(), x.cols()}, DType::f64);
  for (int64_t b = 0; b < sequences.count(); ++b)
    for (int64_t c = 0; c < x.cols(); ++c) {
      double sum = 0, largest = -INFINITY;
      for (int64_t n = sequences.offset(b); n < sequences.offset(b + 1); ++n) {
        sum += value_at(x, n * x.cols() + c);
        largest = std::max(largest, value_at(x, n * x.cols() + c));
      }
      const double first = value_at(x, sequences.offset(b) * x.cols() + c),
                   last = value_at(x, (sequences.offset(b + 1) - 1) * x.cols() + c);
      set_value(out, b * x.cols() + c,
                kind == "cls"    ? first
                : kind == "last" ? last
                : kind == "mean" ? sum / double(sequences.length(b))
                                 : largest);
    }
  return out;
}

// oracle: app.text_encode
TEST(Pool, EqualsTheDefinitionInEveryDtype) {
  for (const std::string& kind : kPoolings)
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const Tensor x = kit::normal({7, 5}, dtype, 1), got = pool(Var(x), three(), kind).value();
      EXPECT_EQ(got.dtype(), dtype);
      // One rounding to the dtype: sums are taken in double.
      EXPECT_EQ(kit::close(got, pooled(x, three(), kind), 1), "") << kind << " " << dtype;
      if (kind != "mean") {
        EXPECT_EQ(kit::bit_difference(convert(got, DType::f64), pooled(x, three(), kind)), "") << kind << " " << dtype;
      }
    }
}

TEST(Pool, ASequenceOfOneRowIsThatRow) {
  const Tensor x = kit::normal({3, 4}, DType::f32, 2);
  for (const std::string& kind : kPoolings)
    EXPECT_EQ(kit::bit_difference(pool(Var(x), Sequences({0, 1, 2, 3}), kind).value(), x), "") << kind;
}

// What padding would do to a mean: rows of other sequences, however many, are never read.
TEST(Pool, BatchMatesDoNotMatter) {
  const Tensor x = kit::normal({7, 5}, DType::f32, 3);
  for (const std::string& kind : kPoolings) {
    const Tensor together = pool(Var(x), three(), kind).value();
    for (int64_t b = 0; b < 3; ++b) {
      const Tensor alone = clone(x.slice(three().offset(b), three().offset(b + 1)));
      EXPECT_EQ(kit::bit_difference(pool(Var(alone), Sequences::single(three().length(b)), kind).value(),
                                    clone(together.slice(b, b + 1))),
                "")
          << kind << " " << b;
    }
  }
}

TEST(Pool, GradientsAgreeWithDifferences) {
  for (const std::string& kind : kPoolings)
    kit::expect_gradients([&](const Vars& in) { return pool(in[0], three(), kind); },
                          {kit::normal({7, 3}, DType::f64, 4)}, kind);
}

// A gradient that is already there is added to, and reaches nothing but what was read.
TEST(Pool, GradientsAccumulate) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const std::string& kind : kPoolings) {
      const Tensor x = kit::normal({7, 3}, dtype, 5),
                   dy = convert(kit::tensor_f64({3, 3}, std::vector<double>(9, 1)), dtype);
      const Tensor once =
          kit::differentiate([&](const Vars& in) { return pool(in[0], three(), kind); }, {x}, dy).gradients[0];
      const Tensor twice =
          kit::differentiate(
              [&](const Vars& in) { return add(pool(in[0], three(), kind), pool(in[0], three(), kind)); }, {x}, dy)
              .gradients[0];
      // dy = 1: shares of 1, 1/4 and 1/2 double exactly.
      for (int64_t i = 0; i < x.numel(); ++i) EXPECT_EQ(value_at(twice, i), 2 * value_at(once, i)) << kind << i;
      double total = 0;
      for (int64_t i = 0; i < x.numel(); ++i) total += value_at(once, i);
      EXPECT_EQ(total, 9) << kind;
    }
}

TEST(Pool, OfEqualLargestRowsTheFirstGetsTheGradient) {
  const Tensor x = kit::tensor_f64({4, 1}, {1, 3, 3, 2});
  const auto out = kit::differentiate([&](const Vars& in) { return pool(in[0], Sequences::single(4), "max"); }, {x},
                                      kit::tensor_f64({1, 1}, {5}));
  EXPECT_EQ(kit::values(out.y), std::vector<double>{3});
  EXPECT_EQ(kit::values(out.gradients[0]), (std::vector<double>{0, 5, 0, 0}));
}

// The largest of places that overlap, as pictures halve their sides, is that of copies of the rows.
TEST(Pool, TheLargestOfPickedRows) {
  const std::vector<int64_t> from{0, 1, 3, 1, 2, 3, 6, 6}, offsets{0, 3, 6, 8};
  const auto direct = [&](const Vars& in) { return max_pool_rows(in[0], from, offsets); };
  const auto copied = [&](const Vars& in) { return pool(pick_rows(in[0], from), Sequences(offsets), "max"); };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensor x = kit::normal({7, 5}, dtype, 7), dy = kit::normal({3, 5}, dtype, 8);
    const auto got = kit::differentiate(direct, {x}, dy), expected = kit::differentiate(copied, {x}, dy);
    EXPECT_EQ(kit::bit_difference(got.y, expected.y), "") << dtype;
    EXPECT_EQ(kit::close(got.gradients[0], convert(expected.gradients[0], DType::f64), 2), "") << dtype;
  }
  kit::expect_gradients(direct, {kit::normal({7, 3}, DType::f64, 9)}, "picked");
  EXPECT_NE(kit::error_of([&] {
              max_pool_rows(Var(kit::normal({2, 2}, DType::f64, 1)), {}, {0});
            }).find("no rows"),
            std::string::npos);
}

TEST(Pool, TheLargestIsFoundAmongInfinitiesAndNegatives) {
  const Tensor x = kit::tensor_f64({3, 2}, {-INFINITY, -4, -INFINITY, -3, -7, -5});
  EXPECT_EQ(kit::values(pool(Var(x), Sequences::single(3), "max").value()), (std::vector<double>{-7, -3}));
}

// An undefined number is not lost, wherever it stands.
TEST(Pool, NotANumberStays) {
  for (const char* kind : {"mean", "max"})
    for (int64_t at : {0, 1, 2}) {
      const Tensor x = kit::tensor_f64({3, 1}, {1, 2, 3});
      set_value(x, at, NAN);
      EXPECT_TRUE(std::isnan(value_at(pool(Var(x), Sequences::single(3), kind).value(), 0))) << kind << " " << at;
    }
}

TEST(Pool, EmptySequencesAreRefusedByName) {
  const Var x(kit::normal({5, 2}, DType::f64, 6));
  for (const auto& offsets : {std::vector<int64_t>{0, 2, 2, 5}, {0, 0, 2, 5}, {0, 2, 5, 5}})
    for (const std::string& kind : kPoolings)
      EXPECT_NE(kit::error_of([&] { pool(x, Sequences(offsets), kind); }).find("is empty"), std::string::npos) << kind;
}

TEST(Pool, ErrorsNameTheRule) {
  const Var x(kit::normal({5, 2}, DType::f64, 6));
  EXPECT_EQ(kit::error_of([&] { pool(x, Sequences::single(4), "mean"); }), "pool: x [5,2] for sequences of 4 rows");
  EXPECT_EQ(kit::error_of([&] { pool(x, Sequences::single(5), "sum"); }),
            "pool: kind must be cls, last, mean or max, got sum");
}

}  // namespace
}  // namespace lithe
