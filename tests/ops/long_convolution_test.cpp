#include "lithe/ops/long_convolution.h"

#include "lithe/ops/convolution.h"
#include "lithe/ops/diagonal_recurrence.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

// Short sequences, an empty one, some that end within and at the end of a block.
const Sequences& sequences() {
  static const Sequences s({0, 1, 14, 14, 22, 26, 53});
  return s;
}

TEST(LongConvolution, IsTheDirectOneForAllTapsAndBlocks) {
  const Tensor x = kit::normal({53, 3}, DType::f64, 1);
  for (const int64_t taps : {1, 2, 3, 4, 5, 8, 9, 27, 40})
    for (const int64_t ahead : {int64_t(0), (taps - 1) / 2, taps - 1})
      for (const int64_t block : {2, 4, 8, 32}) {
        const Tensor w = kit::normal({taps, 3}, DType::f64, 2);
        const Tensor want = convolution(x, w, sequences(), ahead).value(),
                     got = long_convolution(x, w, sequences(), ahead, false, block).value();
        for (int64_t i = 0; i < x.numel(); ++i)
          ASSERT_NEAR(value_at(got, i), value_at(want, i), 1e-12 * double(taps))
              << taps << " " << ahead << " " << block;
      }
}

TEST(LongConvolution, Gradients) {
  const Sequences three({0, 3, 10, 17});
  for (const int64_t taps : {3, 11})
    for (const int64_t ahead : {0, 2})
      kit::expect_gradients(
          [&](const std::vector<Var>& in) { return long_convolution(in[0], in[1], three, ahead, false, 2); },
          {kit::normal({17, 2}, DType::f64, 1), kit::normal({taps, 2}, DType::f64, 2)});
  kit::expect_gradients([&](const std::vector<Var>& in) { return long_convolution(in[0], in[1], three, 0, true, 4); },
                        {kit::normal({17, 4}, DType::f64, 1), kit::normal({9, 4}, DType::f64, 2)});
}

// oracle: ssm.conv
TEST(LongConvolution, WithPowersForTapsItIsTheLinearRecurrence) {
  for (const DType type : {DType::f64, DType::f32, DType::bf16})
    for (const bool complex : {false, true}) {
      const int64_t T = 700, C = 4;
      const DType wide = wide_of(type);
      const Tensor x = kit::normal({T, C}, type, 1), a = empty({C}, wide), impulse = zeros({T, C}, wide);
      for (int64_t c = 0; c < C; ++c) {
        set_value(a, c, complex ? (c < 2 ? 0.9 : 0.3 * double(c - 2)) : 0.6 + 0.13 * double(c));
        set_value(impulse, c, c < (complex ? 2 : C));
      }
      const Sequences s({0, 40, 640, T});
      const Tensor taps = diagonal_recurrence(impulse, a, {}, Sequences::single(T), complex).value();
      const Tensor want = diagonal_recurrence(x, a, {}, s, complex).value(),
                   got = long_convolution(x, taps, s, 0, complex, 64).value();
      const double bound = type == DType::f64 ? 1e-10 : type == DType::f32 ? 1e-4 : 0.2;  // of values to 100
      for (int64_t i = 0; i < x.numel(); ++i) ASSERT_NEAR(value_at(got, i), value_at(want, i), bound) << type;
    }
}

// oracle: ssm.conv
TEST(LongConvolution, NothingWrapsAroundAndLaterRowsChangeNoBitOfEarlierOnes) {
  const int64_t T = 300;
  const Tensor w = kit::normal({T, 2}, DType::f32, 2), x = kit::normal({T, 2}, DType::f32, 1),
               last = zeros({T, 2}, DType::f32);
  set_value(last, 2 * T - 1, 1);
  const Tensor y = long_convolution(last, w, Sequences::single(T), 0, false, 16).value();
  for (int64_t i = 0; i < 2 * T - 1; ++i) ASSERT_EQ(value_at(y, i), 0) << i;
  EXPECT_EQ(value_at(y, 2 * T - 1), value_at(w, 1));
  const Tensor before = long_convolution(x, w, Sequences::single(T), 0, false, 16).value();
  for (const int64_t t : {299, 160, 17}) {
    const Tensor moved = clone(x);
    set_value(moved, 2 * t, 5);
    const Tensor after = long_convolution(moved, w, Sequences::single(T), 0, false, 16).value();
    for (int64_t i = 0; i < 2 * t; ++i) ASSERT_EQ(value_at(after, i), value_at(before, i)) << t;
    EXPECT_NE(value_at(after, 2 * t), value_at(before, 2 * t));
  }
}

TEST(LongConvolution, ASequenceHasTheSameBitsAloneAndAmongLongerOnes) {
  const Tensor x = kit::normal({53, 3}, DType::f32, 1), w = kit::normal({27, 3}, DType::f32, 2);
  const Tensor packed = long_convolution(x, w, sequences(), 0, false, 4).value();
  for (int64_t b = 0; b < sequences().count(); ++b) {
    const int64_t from = sequences().offset(b), n = sequences().length(b);
    if (n == 0) continue;
    const Tensor alone =
        long_convolution(x.slice(from, from + n), w.slice(0, n), Sequences::single(n), 0, false, 4).value();
    EXPECT_EQ(kit::bit_difference(alone, clone(packed.slice(from, from + n))), "") << b;
  }
}

TEST(LongConvolution, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({4, 2}, DType::f32), w = zeros({3, 2}, DType::f32);
  const Sequences s = Sequences::single(4);
  EXPECT_THROW(long_convolution(x, zeros({3, 1}, DType::f32), s), Error);
  EXPECT_THROW(long_convolution(x, w, s, 3), Error);
  EXPECT_THROW(long_convolution(x, w, s, 0, false, 48), Error);
  EXPECT_THROW(long_convolution(x, w, Sequences::single(5)), Error);
}

}  // namespace
}  // namespace lithe
