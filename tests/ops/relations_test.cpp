#include "lithe/ops/relations.h"

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

constexpr Relation kAll[] = {Relation::distance, Relation::angle, Relation::gram};

double related(Relation relation, const Tensor& x, const Tensor& other) {
  return value_at(relation_loss(relation, Var(x), other, 1).value(), 0);
}

// x turned in its first two columns, moved, and scaled.
Tensor moved(const Tensor& x, double angle, double by, double scale) {
  const Tensor out = clone(x);
  for (int64_t n = 0; n < x.rows(); ++n) {
    const double a = value_at(x, n * x.cols()), b = value_at(x, n * x.cols() + 1);
    set_value(out, n * x.cols(), std::cos(angle) * a - std::sin(angle) * b);
    set_value(out, n * x.cols() + 1, std::sin(angle) * a + std::cos(angle) * b);
  }
  for (int64_t i = 0; i < x.numel(); ++i) set_value(out, i, scale * value_at(out, i) + by * double(1 + i % x.cols()));
  return out;
}

// oracle: kd.relation
TEST(Relations, CopiesTurnedAndMovedAreTheSame) {
  const Tensor x = random({6, 3}, 1);
  for (const Relation relation : kAll) EXPECT_NEAR(related(relation, moved(x, 0.7, 30, 1), x), 0, 1e-12);
  for (const Relation relation : {Relation::distance, Relation::angle}) {
    EXPECT_NEAR(related(relation, moved(x, 0.7, -2, 5), x), 0, 1e-12);
    const Tensor other = random({6, 4}, 2);
    EXPECT_NEAR(related(relation, moved(x, 0.7, -2, 5), other), related(relation, x, other), 1e-10);
    EXPECT_GT(related(relation, x, other), 1e-3);
  }
}

TEST(Relations, AreWhatTheirDefinitionsSay) {
  // Points 0, 3 and 4i: distances 3, 4, 5 of mean 4; the other's are all 1.
  const Tensor x = kit::tensor_f64({3, 2}, {0, 0, 3, 0, 0, 4}),
               even = kit::tensor_f64({3, 2}, {0, 0, 1, 0, 0.5, std::sqrt(3.0) / 2});
  EXPECT_NEAR(related(Relation::distance, x, even), (0.25 * 0.25 / 2 + 0 + 0.25 * 0.25 / 2) / 3, 1e-12);
  double angles = 0;
  for (const double cosine : {0.0, 0.6, 0.8}) angles += (cosine - 0.5) * (cosine - 0.5) / 2 / 3;
  EXPECT_NEAR(related(Relation::angle, x, even), angles, 1e-12);
}

TEST(Relations, Gradients) {
  const Tensor x = random({5, 3}, 1), other = random({5, 4}, 2);
  for (const Relation relation : kAll)
    kit::expect_gradients([&](const Vars& in) { return relation_loss(relation, in[0], other, 2); }, {x},
                          cat(int(relation)));
}

TEST(Relations, NeedTwoOrThreeRows) {
  const Tensor two = random({2, 3}, 1), one = random({1, 3}, 1);
  EXPECT_EQ(kit::coded_error_of([&] { related(Relation::distance, one, one); }),
            "2 relation: a relation needs at least 2 rows, and there are 1; give larger batches");
  EXPECT_EQ(kit::coded_error_of([&] { related(Relation::angle, two, two); }),
            "2 relation: a relation needs at least 3 rows, and there are 2; give larger batches");
  EXPECT_EQ(related(Relation::distance, two, two), 0);
}

TEST(AttentionRelations, AreTheDivergenceOfTheMaps) {
  const Sequences sequences({0, 3, 5});
  const Tensor a = random({5, 4}, 1), b = random({5, 4}, 2), c = random({5, 6}, 3), d = random({5, 6}, 4);
  const double got = value_at(attention_relation_loss({a, b}, {c, d}, sequences, 2, 1).value(), 0);
  double wanted = 0;
  const auto logit = [](const Tensor& x, const Tensor& y, int64_t i, int64_t j, int64_t head, int64_t width) {
    double sum = 0;
    for (int64_t k = head * width; k < (head + 1) * width; ++k)
      sum += value_at(x, i * x.cols() + k) * value_at(y, j * y.cols() + k);
    return sum / std::sqrt(double(width));
  };
  for (int64_t s = 0; s < 2; ++s)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = sequences.offset(s); i < sequences.offset(s + 1); ++i) {
        double mine = 0, theirs = 0;
        for (int64_t j = sequences.offset(s); j < sequences.offset(s + 1); ++j)
          mine += std::exp(logit(a, b, i, j, h, 2)), theirs += std::exp(logit(c, d, i, j, h, 3));
        for (int64_t j = sequences.offset(s); j < sequences.offset(s + 1); ++j) {
          const double p = std::exp(logit(c, d, i, j, h, 3)) / theirs, q = std::exp(logit(a, b, i, j, h, 2)) / mine;
          wanted += p * std::log(p / q) / (2 * 5);
        }
      }
  EXPECT_NEAR(got, wanted, 1e-12);
  EXPECT_NEAR(value_at(attention_relation_loss({a, a}, {clone(a), clone(a)}, sequences, 2, 1).value(), 0), 0, 1e-14);
}

TEST(AttentionRelations, Gradients) {
  const Sequences sequences({0, 3, 5});
  const Tensor a = random({5, 4}, 1), b = random({5, 4}, 2), c = random({5, 6}, 3), d = random({5, 6}, 4);
  const auto both = [&](const Vars& in) { return attention_relation_loss({in[0], in[1]}, {c, d}, sequences, 2, 1.5); };
  kit::expect_gradients(both, {a, b});
  const auto same = [&](const Vars& in) { return attention_relation_loss({in[0], in[0]}, {c, c}, sequences, 1, 1.5); };
  kit::expect_gradients(same, {a});
  EXPECT_EQ(kit::coded_error_of([&] {
              attention_relation_loss({a, a}, {c, c}, sequences, 3, 1);
            }).substr(0, 40),
            "2 relation: 3 relation heads do not divi");
}

}  // namespace
}  // namespace lithe
