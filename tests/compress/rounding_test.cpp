#include "lithe/model/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/numbers.h"

namespace lithe {
namespace {

using kernels::PackedFormat, kernels::PackedMatrix;

std::vector<int64_t> integers(const std::vector<float>& x, const Rounding& r) {
  std::vector<int64_t> out;
  for (const float v : x) out.push_back(r.unclipped(v));
  return out;
}

// oracle: hpc.ptq
TEST(Rounding, IsTheTextbooksExample) {
  const std::vector<float> x{-1, 0.4f, 1.27f};
  const Rounding symmetric = rounding_of(x), text = rounding_of(x, 8, RoundingScheme::text_unsigned);
  EXPECT_NEAR(symmetric.step, 0.01, 1e-8);
  EXPECT_EQ(integers(x, symmetric), (std::vector<int64_t>{-100, 40, 127}));
  EXPECT_NEAR(text.step, 0.00498039, 1e-8);
  EXPECT_EQ(integers(x, text), (std::vector<int64_t>{-201, 80, 255}));  // numbers with a sign fall out of its range
  EXPECT_EQ(text.quantise(-1), 0);
}

// oracle: hpc.ptq
TEST(Rounding, ErrsByHalfAStepAndKeepsItsOwnValues) {
  const Tensor x = kit::normal({1000}, DType::f32, 1);
  const std::span<const float> numbers(x.data<float>(), 1000);
  for (const int bits : {2, 4, 8, 12})
    for (const double percentile : {100.0, 90.0}) {
      const Rounding r = rounding_of(numbers, bits, RoundingScheme::symmetric, percentile);
      for (const float v : numbers) {
        const double inside = std::clamp<double>(v, -r.step * double(r.most), r.step * double(r.most));
        const int64_t q = r.quantise(v);
        ASSERT_LE(std::abs(r.value(q) - inside), r.step / 2 * (1 + 1e-12));
        ASSERT_EQ(r.quantise(r.value(q)), q);
      }
      EXPECT_EQ(r.quantise(0), 0);
      EXPECT_EQ(r.value(0), 0);
      const int64_t clipped = std::count_if(
          numbers.begin(), numbers.end(), [&](float v) { return std::abs(v) > r.step * double(r.most) * (1 + 1e-6); });
      EXPECT_EQ(clipped, percentile == 100 ? 0 : 100);
    }
  EXPECT_EQ(rounding_of({}).step, 0);
  EXPECT_EQ(rounding_of(std::vector<float>{0, 0}).quantise(0), 0);
  EXPECT_EQ((Rounding{1, -9, 9}).quantise(2.5), 3);  // halves away from zero
  EXPECT_EQ((Rounding{1, -9, 9}).quantise(-2.5), -3);
}

// Matrices in both orders hold the same integers; each element errs by half a step of its output or group. The step of
// 4 bits is rounded to bf16 and may clip what stands at +8: one step.
TEST(Rounding, OfAMatrixFollowsItsOutputs) {
  const int64_t N = 45, K = 70;
  const Tensor w = kit::normal({N, K}, DType::f32, 3), turned = empty({K, N}, DType::f32);
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) turned.data<float>()[k * N + n] = n == 9 ? 0 : w.data<float>()[n * K + k];
  for (int64_t k = 0; k < K; ++k) w.data<float>()[9 * K + k] = 0;
  for (const int64_t group : {0, 32, 64}) {
    PackedMatrix m{group ? PackedFormat::int4 : PackedFormat::int8, N, K, group, true, "w", {}, {}}, t = m;
    t.by_rows = false;
    const auto parts = round_matrix(w, m), others = round_matrix(turned, t);
    EXPECT_EQ(kit::bit_difference(parts.values, others.values), "");
    EXPECT_EQ(kit::bit_difference(parts.scales, others.scales), "");
    kernels::pack(m, parts);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k) {
        const double step = std::abs(quantized_scale(m, n, k));
        ASSERT_NEAR(quantized_scale(m, n, k) * quantized_value(m, n, k), value_at(w, n * K + k),
                    step * (group ? 2 : 0.5) * (1 + 1e-5))
            << n << " " << k;
      }
    // Rounding to a grid of steps errs by about step / sqrt(12); the step is the largest of K or of a group / 127 or 8.
    EXPECT_LT(rounding_error(w, m), group ? 3.0 / 8 / std::sqrt(12) : 4.0 / 127 / std::sqrt(12)) << group;
    EXPECT_GT(rounding_error(w, m), 0);
  }
}

TEST(Rounding, SearchesTheStepOfAGroup) {
  const Tensor w = kit::normal({8, 64}, DType::f32, 4);
  PackedMatrix m{PackedFormat::int4, 8, 64, 32, true, "w", {}, {}};
  kernels::pack(m, round_matrix(w, m));
  double plain = 0, size = 0;
  for (int64_t g = 0; g < 16; ++g) {
    const Rounding r = rounding_of({w.data<float>() + g * 32, 32}, 4);
    for (int64_t k = 0; k < 32; ++k) {
      const double v = value_at(w, g * 32 + k), d = v - r.value(r.quantise(v));
      plain += d * d, size += v * v;
    }
  }
  EXPECT_LT(rounding_error(w, m), 0.95 * std::sqrt(plain / size));
}

TEST(Rounding, RefusesWhatIsNotANumber) {
  const Tensor w = kit::normal({4, 4}, DType::f32, 5);
  set_value(w, 7, std::numeric_limits<double>::quiet_NaN());
  const PackedMatrix m{PackedFormat::int8, 4, 4, 0, true, "layer", {}, {}};
  try {
    round_matrix(w, m);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rounding: 'layer' holds nan; only finite numbers can be rounded");
  }
}

// Rows whose channels go together: what one input's rounding does to a product, the next can undo.
Tensor rows_that_go_together(int64_t n, int64_t k) {
  const Tensor x = kit::normal({n, k}, DType::f64, 4);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 1; c < k; ++c)
      set_value(x, i * k + c, 0.8 * value_at(x, i * k + c - 1) + 0.6 * value_at(x, i * k + c) * (c % 7 ? 1 : 5));
  return x;
}

double product_error(const Tensor& x, const Tensor& w, const kernels::QuantizedTensors& integers,
                     const PackedMatrix& m) {
  const Tensor read = empty(w.shape(), DType::f64), difference = empty(w.shape(), DType::f64);
  write_numbers(integers, m, read);
  for (int64_t i = 0; i < w.numel(); ++i) set_value(difference, i, value_at(read, i) - value_at(w, i));
  const Tensor y = kit::product(x, difference);
  double sum = 0;
  for (int64_t i = 0; i < y.numel(); ++i) sum += value_at(y, i) * value_at(y, i);
  return sum;
}

TEST(RoundBySecondOrder, LeavesLessErrorOfProductsThanTheNearestIntegers) {
  const int64_t K = 64, M = 24;
  const Tensor x = rows_that_go_together(512, K), w = kit::normal({K, M}, DType::f32, 5);
  Tensor transposed = empty({K, 512}, DType::f64);
  for (int64_t i = 0; i < 512; ++i)
    for (int64_t k = 0; k < K; ++k) set_value(transposed, k * 512 + i, value_at(x, i * K + k));
  const Tensor moments = kit::product(transposed, x), importance = empty({K}, DType::f64);
  for (int64_t k = 0; k < K; ++k) set_value(importance, k, value_at(moments, k * K + k));
  for (const std::string name : {"int8", "int4", "int2", "ternary"}) {
    const WeightIntegers as = weight_integers(name, 32);
    PackedMatrix m{as.format, M, K, as.group, false, "w", {}, {}};
    const double nearest = product_error(x, w, round_matrix(w, m, as), m),
                 second = product_error(x, w, round_by_second_order(w, m, as, moments), m);
    EXPECT_LT(second, 0.7 * nearest) << name;
    // Steps by importance leave less of the error that they are chosen for.
    Tensor roots = zeros({K, K}, DType::f64);
    for (int64_t k = 0; k < K; ++k) set_value(roots, k * K + k, std::sqrt(value_at(importance, k)));
    EXPECT_LT(product_error(roots, w, round_matrix(w, m, as, importance), m),
              1.0001 * product_error(roots, w, round_matrix(w, m, as), m))
        << name;
    // Inputs that have nothing to do with each other cannot make up for anything.
    const Tensor alone = zeros({K, K}, DType::f64), alike = empty({K}, DType::f64);
    for (int64_t k = 0; k < K; ++k) set_value(alone, k * K + k, 3), set_value(alike, k, 3);
    const kernels::QuantizedTensors plain = round_matrix(w, m, as), apart = round_by_second_order(w, m, as, alone);
    EXPECT_EQ(kit::bit_difference(plain.scales, apart.scales), "") << name;
    EXPECT_LE(kit::changed_rows(plain.values, apart.values).size(), 2u) << name;  // halves
    if (name != "int8") {
      EXPECT_EQ(kit::bit_difference(plain.values, round_matrix(w, m, as, alike).values), "") << name;
    }
  }
}

}  // namespace
}  // namespace lithe
