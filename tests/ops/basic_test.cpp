#include "lithe/ops/basic.h"

#include <cmath>

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(BasicOps, Gradients) {
  const std::vector<Tensor> two{random({3, 4}, 1), random({3, 4}, 2)};
  kit::expect_gradients([](const Vars& in) { return add(in[0], in[1], 2, -0.5); }, two, "add");
  kit::expect_gradients([](const Vars& in) { return add(in[0], in[0], 2, -0.5); }, two, "add to itself");
  kit::expect_gradients([](const Vars& in) { return mul(in[0], in[1]); }, two, "mul");
  kit::expect_gradients([](const Vars& in) { return mul(in[0], mul(in[0], in[0])); }, two, "cube");
  kit::expect_gradients([](const Vars& in) { return scale(in[0], -3); }, two, "scale");
  kit::expect_gradients([](const Vars& in) { return sum(mul(in[0], in[1])); }, two, "sum");
  kit::expect_gradients([](const Vars& in) { return reshape(in[0], {6, 2}); }, two, "reshape");
  kit::expect_gradients([](const Vars& in) { return pick_rows(in[0], {2, 0, 2, 2}); }, two, "pick_rows");
}

TEST(BasicOps, RowAffineGradients) {
  const std::vector<Tensor> inputs{random({3, 6}, 1), random({2}, 2), random({3}, 3), random({6}, 4)};
  kit::expect_gradients([](const Vars& in) { return row_affine(in[0], in[3], in[3]); }, inputs, "weight is bias");
  kit::expect_gradients([](const Vars& in) { return row_affine(in[0], in[1], in[1]); }, inputs, "period 2");
  kit::expect_gradients([](const Vars& in) { return row_affine(in[0], in[2], {}); }, inputs, "weight only");
  kit::expect_gradients([](const Vars& in) { return row_affine(in[0], {}, in[2]); }, inputs, "bias only");
  const Tensor y = row_affine(Var(kit::tensor_f64({1, 4}, {1, 2, 3, 4})), Var(kit::tensor_f64({2}, {10, 100})),
                              Var(kit::tensor_f64({2}, {1, 2})))
                       .value();
  EXPECT_EQ(kit::values(y), (std::vector<double>{11, 202, 31, 402}));
}

TEST(BasicOps, Values) {
  const Var a(kit::tensor_f64({1, 2}, {1, 2})), b(kit::tensor_f64({1, 2}, {10, 30}));
  EXPECT_EQ(kit::values(add(a, b, 3, 0.5).value()), (std::vector<double>{8, 21}));
  EXPECT_EQ(kit::values(mul(a, b).value()), (std::vector<double>{10, 60}));
  EXPECT_EQ(kit::values(pick_rows(Var(kit::tensor_f64({2, 2}, {1, 2, 3, 4})), {1, 1, 0}).value()),
            (std::vector<double>{3, 4, 3, 4, 1, 2}));
  EXPECT_EQ(reshape(Var(random({3, 4}, 1)), {2, 6}).shape(), (Shape{2, 6}));
}

TEST(BasicOps, CastsRoundOnceAndSendGradientsBackInTheFirstType) {
  const Var x = Var::leaf(convert(kit::tensor_f64({1, 3}, {1, 1.001, -3.14159}), DType::f32));
  Tape tape;
  const Var y = cast(x, DType::bf16);
  EXPECT_EQ(kit::values(y.value()), (std::vector<double>{1, 1, -3.140625}));
  tape.backward(y, convert(kit::tensor_f64({1, 3}, {1, 2, 3}), DType::bf16));
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  EXPECT_EQ(kit::values(x.grad()), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(cast(x, DType::f32).ref(), x.ref());  // nothing to do
}

TEST(BasicOps, RowsPickedInBf16GatherInF32) {
  const Var x = Var::leaf(convert(random({2, 3}, 1), DType::bf16));
  const std::vector<int64_t> rows(300, 1);  // bf16 cannot count one by one beyond 256
  Tape tape;
  const Var y = pick_rows(x, rows);
  EXPECT_EQ(y.dtype(), DType::bf16);
  Tensor ones = empty_like(y.value());
  for (int64_t i = 0; i < ones.numel(); ++i) set_value(ones, i, 1);
  tape.backward(y, ones);
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
  EXPECT_EQ(kit::values(x.grad()), (std::vector<double>{0, 0, 0, 300, 300, 300}));
}

TEST(BasicOps, SumsAreTakenInDouble) {
  std::vector<double> many(1 << 16, 0.1);
  many[0] = 1e6;
  const Tensor x = convert(kit::tensor_f64({1 << 8, 1 << 8}, many), DType::f32);
  const double want = 1e6 + 65535 * double(0.1f);
  EXPECT_NEAR(value_at(sum(Var(x)).value(), 0), want, epsilon_of(DType::f32) * want * 1.01);
}

TEST(Dropout, KeepsAFractionAndScalesIt) {
  constexpr int64_t n = 100'000;
  const double p = 0.3;
  const Var x = Var::leaf(kit::normal({100, 1000}, DType::f32, 1, 1, 5));
  const Tape tape;
  const Tensor y = dropout(x, p, {.seed = 3, .step = 4, .layer = 5, .purpose = 6}).value();
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = value_at(y, i);
    if (v == 0) continue;
    ++kept;
    ASSERT_NEAR(v, value_at(x.value(), i) / (1 - p), 4 * 0x1p-24 * std::abs(v)) << i;
  }
  // Four standard errors of a binomial fraction.
  EXPECT_NEAR(double(kept) / n, 1 - p, 4 * std::sqrt(p * (1 - p) / n));
}

TEST(Dropout, MasksFollowTheKeyAndNothingElse) {
  const Var x = Var::leaf(kit::normal({10, 100}, DType::f32, 1, 1, 5)),
            other = Var::leaf(kit::normal({10, 100}, DType::f32, 2, 1, 5));
  const Tape tape;
  const auto mask = [](const Var& y) {
    std::vector<bool> out;
    for (double v : kit::values(y.value())) out.push_back(v != 0);
    return out;
  };
  const RandomKey key{.seed = 1, .step = 2, .layer = 3, .purpose = 4};
  const auto first = mask(dropout(x, 0.5, key));
  EXPECT_EQ(first, mask(dropout(other, 0.5, key)));
  for (const RandomKey& changed : {RandomKey{2, 2, 3, 4}, {1, 3, 3, 4}, {1, 2, 4, 4}, {1, 2, 3, 5}})
    EXPECT_NE(first, mask(dropout(x, 0.5, changed)));
}

TEST(Dropout, TheGradientUsesTheSameMask) {
  const Var x = Var::leaf(kit::normal({10, 10}, DType::f64, 1, 1, 5));
  const Tensor dy = kit::normal({10, 10}, DType::f64, 2);
  Tape tape;
  const Var y = dropout(x, 0.4, {.seed = 9});
  tape.backward(y, clone(dy));
  for (int64_t i = 0; i < 100; ++i) {
    const double factor = value_at(y.value(), i) / value_at(x.value(), i);
    EXPECT_NEAR(value_at(x.grad(), i), factor * value_at(dy, i), 4 * 0x1p-53 * std::abs(value_at(dy, i)) / 0.6) << i;
  }
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  const Var x = Var::leaf(random({2, 2}, 1));
  EXPECT_EQ(kit::bit_difference(dropout(x, 0.5, {}).value(), x.value()), "");
  const Tape tape;
  EXPECT_EQ(dropout(x, 0, {}).ref(), x.ref());
}

TEST(BasicOps, ErrorsNameBothShapes) {
  const Var a(random({2, 3}, 1)), b(random({3, 2}, 2)), v(random({4}, 3));
  EXPECT_EQ(kit::error_of([&] { add(a, b); }), "add: shapes must be equal, got [2,3] and [3,2]");
  EXPECT_EQ(kit::error_of([&] { mul(a, b); }), "mul: shapes must be equal, got [2,3] and [3,2]");
  EXPECT_EQ(kit::error_of([&] { row_affine(a, v, {}); }),
            "row_affine: the columns of x [2,3] must be a multiple of the vector's length, got [4]");
  EXPECT_EQ(kit::error_of([&] { pick_rows(a, {0, 2}); }), "pick_rows: row 2 of [2,3]");
  EXPECT_EQ(kit::error_of([&] { dropout(a, 1, {}); }), "dropout: p must be in [0, 1), got 1");
  EXPECT_NE(kit::error_of([&] { reshape(a, {4, 2}); }).find("[2,3]"), std::string::npos);
}

}  // namespace
}  // namespace lithe
