#include "lithe/ops/taylor_attention.h"

#include "lithe/ops/attention.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

using kernels::TaylorKind;

// oracle: decon.approx
TEST(AttendTaylor, Gradients) {
  const Sequences sequences({0, 4, 5, 9});
  const std::vector<Tensor> inputs{kit::normal({9, 6}, DType::f64, 1, 0.3, 1),
                                   kit::normal({9, 6}, DType::f64, 2, 0.3, 1), kit::normal({9, 4}, DType::f64, 3)};
  for (const TaylorKind kind : {TaylorKind::full, TaylorKind::diag, TaylorKind::split})
    for (const bool causal : {true, false}) {
      const TaylorOptions options{.kind = kind, .heads = 2, .causal = causal};
      kit::expect_gradients([&](const Vars& in) { return attend_taylor(in[0], in[1], in[2], sequences, options); },
                            inputs, cat("kind ", int(kind)));
      kit::expect_gradients([&](const Vars& in) { return attend_taylor(in[0], in[0], in[0], sequences, options); },
                            {inputs[0]}, cat("kind ", int(kind), ", one in all roles"));
      kit::expect_gradients(
          [&](const Vars& in) { return attend_taylor(Var(inputs[0]), in[0], Var(inputs[2]), sequences, options); },
          {inputs[1]}, cat("kind ", int(kind), ", keys only"));
    }
}

// oracle: decon.approx
TEST(AttendTaylor, GradientsOfAnotherText) {
  const Sequences sequences({0, 4, 5, 7}), source({0, 2, 5, 9});
  const std::vector<Tensor> inputs{kit::normal({7, 6}, DType::f64, 1, 0.3, 1),
                                   kit::normal({9, 6}, DType::f64, 2, 0.3, 1), kit::normal({9, 4}, DType::f64, 3)};
  for (const TaylorKind kind : {TaylorKind::full, TaylorKind::diag, TaylorKind::split})
    kit::expect_gradients(
        [&](const Vars& in) {
          return attend_taylor(in[0], in[1], in[2], sequences, source, {.kind = kind, .heads = 2, .causal = false});
        },
        inputs, cat("kind ", int(kind)));
}

// oracle: decon.approx
TEST(AttendTaylor, ErrorAgainstSoftmaxFallsWithTheCubeOfTheQueries) {
  const Sequences sequences = Sequences::single(7);
  const Tensor q = kit::normal({7, 6}, DType::f64, 4), k = kit::normal({7, 6}, DType::f64, 5),
               v = kit::normal({7, 6}, DType::f64, 6);
  const auto error = [&](double c) {
    const Tensor small = clone(q);
    for (int64_t i = 0; i < q.numel(); ++i) set_value(small, i, c * value_at(q, i));
    const Tensor exact =
        attend(small, k, v, sequences, sequences, {.heads = 2, .kv_heads = 2, .mask = {.causal = true}}).value();
    return kit::largest_difference(attend_taylor(small, k, v, sequences, {.heads = 2}).value(), exact);
  };
  // The next term of the series changes the ratio of 8 by a factor 1 + O(c).
  const double ratio = error(0.02) / error(0.01);
  EXPECT_NEAR(ratio, 8, 0.5);
  EXPECT_GT(error(0.01), 1e-10);
}

// oracle: decon.approx
TEST(AttendTaylor, QueriesOfZeroTakeTheMeanOfTheValues) {
  const Tensor k = kit::normal({5, 4}, DType::f64, 7), v = kit::normal({5, 4}, DType::f64, 8);
  for (const TaylorKind kind : {TaylorKind::full, TaylorKind::diag}) {
    const Tensor out =
        attend_taylor(zeros({5, 4}, DType::f64), k, v, Sequences::single(5), {.kind = kind, .heads = 2}).value();
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t c = 0; c < 4; ++c) {
        double mean = 0;
        for (int64_t j = 0; j <= i; ++j) mean += value_at(v, j * 4 + c) / double(i + 1);
        EXPECT_NEAR(value_at(out, i * 4 + c), mean, 1e-14);
      }
  }
}

// oracle: decon.approx
TEST(AttendTaylor, FullWeightsSumToOne) {
  const Tensor q = kit::normal({6, 6}, DType::f64, 9), k = kit::normal({6, 6}, DType::f64, 10);
  const Tensor ones = empty({6, 6}, DType::f64), unit = zeros({6, 6}, DType::f64);
  for (int64_t i = 0; i < 36; ++i) set_value(ones, i, 1);
  const Tensor sum = attend_taylor(q, k, ones, Sequences::single(6), {.heads = 3}).value();
  EXPECT_EQ(kit::close(sum, ones, 16), "");
  // Each token's own unit value shows its weight, which is not negative.
  for (int64_t i = 0; i < 6; ++i) set_value(unit, i * 7, 1);
  const Tensor weights = attend_taylor(q, k, unit, Sequences::single(6), {.heads = 1}).value();
  for (double w : kit::values(weights)) EXPECT_GE(w, 0);
}

// oracle: decon.approx
TEST(AttendTaylor, RecurrentIsParallel) {
  const Tensor q = kit::normal({7, 6}, DType::f64, 11, 0.3, 1), k = kit::normal({7, 6}, DType::f64, 12, 0.3, 1),
               v = kit::normal({7, 4}, DType::f64, 13);
  for (const TaylorKind kind : {TaylorKind::full, TaylorKind::diag, TaylorKind::split}) {
    const TaylorOptions options{.kind = kind, .heads = 2};
    const Tensor whole = attend_taylor(q, k, v, Sequences::single(7), options).value();
    const std::vector<Tensor> states{zeros({2, kernels::taylor_state(kind, 3, 2)}, DType::f64)};
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < 7; ++t)
      rows.push_back(attend_taylor_step(q.slice(t, t + 1), k.slice(t, t + 1), v.slice(t, t + 1), Sequences({0, 1}, {t}),
                                        states, options));
    EXPECT_EQ(kit::close(kit::concatenate(rows), whole, 64), "") << int(kind);
  }
  EXPECT_EQ(kit::error_of([&] { attend_taylor_step(q, k, v, Sequences::single(7), {}, {}); }),
            "attend_taylor: one state a sequence: 1, got 0");
  EXPECT_EQ(kit::error_of([&] { attend_taylor(q, k, v, Sequences::single(7), {.heads = 4}); }),
            "attend_taylor: q, k and v must be [N, heads*d] of 4 heads, got [7,6], [7,6] and [7,4]");
}

}  // namespace
}  // namespace lithe
