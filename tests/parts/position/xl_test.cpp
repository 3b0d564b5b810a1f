#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t kXlRows = 6, kXlWidth = 8, kXlHeads = 2;

struct Placed {
  kit::Bench bench;
  std::unique_ptr<Position> position;
  Tensor q = kit::normal({kXlRows, kXlWidth}, DType::f64, 1), k = kit::normal({kXlRows, kXlWidth}, DType::f64, 2);
  Sequences sequences = Sequences::single(kXlRows);
  explicit Placed(int64_t far)
      : position(bench.make<Position>("xl", {.hidden_size = kXlWidth, .num_attention_heads = kXlHeads},
                                      cat("{max_distance: ", far, "}"))) {
    kit::randomise(bench.parameters(), 3);
  }
  LogitBias bias() const {
    return position->bias({q, k, sequences, Pass::nowhere(), q, {{0, kXlRows}}, 0.5}, kXlHeads);
  }
  double dot(const Tensor& a, int64_t i, const std::function<double(int64_t)>& b, int64_t head) const {
    double sum = 0;
    for (int64_t c = 0; c < 4; ++c) sum += value_at(a, i * kXlWidth + head * 4 + c) * b(head * 4 + c);
    return sum;
  }
};

// oracle: pos.rpr_logit
TEST(XlPosition, AddsTheThreeTermsOfTheFormula) {
  Placed at(kXlRows);
  const LogitBias bias = at.bias();
  const Tensor u = at.bench["part.u"], v = at.bench["part.v"], w = at.bench["part.r.weight"];
  const int64_t R = kXlRows + 1;
  for (int64_t head = 0; head < kXlHeads; ++head)
    for (int64_t i = 0; i < kXlRows; ++i) {
      for (int64_t t = 0; t < R; ++t) {
        const auto r = [&](int64_t column) {
          double sum = 0;
          for (int64_t c = 0; c < kXlWidth; ++c) {
            const double angle = double(t) / std::pow(10000.0, double(c / 2 * 2) / double(kXlWidth));
            sum += (c % 2 ? std::cos(angle) : std::sin(angle)) * value_at(w, c * kXlWidth + column);
          }
          return sum;
        };
        const double want = at.dot(at.q, i, r, head) + [&] {
          double sum = 0;
          for (int64_t c = head * 4; c < head * 4 + 4; ++c) sum += value_at(v, c) * r(c);
          return sum;
        }();
        EXPECT_NEAR(value_at(bias.rows.value(), i * kXlHeads * R + head * R + t), 0.5 * want, 1e-12);
      }
      const auto of_head = [&](int64_t column) { return value_at(u, (column % 4) * kXlHeads + head); };
      EXPECT_NEAR(value_at(bias.columns.value(), i * kXlHeads + head), 0.5 * at.dot(at.k, i, of_head, head), 1e-12);
    }
}

TEST(XlPosition, WithZerosItAddsNothing) {
  Placed at(4);
  for (Parameter& p : at.bench.parameters().all()) fill_zero(p.master.value());
  for (const Tensor& x : {at.bias().rows.value(), at.bias().columns.value()})
    for (int64_t i = 0; i < x.numel(); ++i) EXPECT_EQ(value_at(x, i), 0);
}

TEST(XlPosition, NeedsToKnowTheHeads) {
  const std::string error = kit::coded_error_of(
      [] { kit::Bench().make<Position>("xl", {.hidden_size = kXlWidth, .num_attention_heads = 0}); });
  EXPECT_NE(error.find("2 xl: needs one num_attention_heads"), std::string::npos) << error;
}

}  // namespace
}  // namespace lithe
