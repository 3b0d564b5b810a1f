#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TEST(AttendExpander, ARowReadsTheShorterSequenceAndAddsWhatItFinds) {
  kit::Bench bench;
  const auto part = bench.make<Expander>("attend", {.hidden_size = 4}, "{num_attention_heads: 1}");
  EXPECT_EQ(bench.parameters().count(), 4 * 4 * 4);
  kit::randomise(bench.parameters(), 2);
  const Tensor before = kit::normal({5, 4}, DType::f64, 1), now = kit::normal({3, 4}, DType::f64, 2);
  const Shortening from{{Var(before), Sequences({0, 3, 5})}, std::vector<int64_t>(5, -1)};
  const Tensor y = part->forward({Var(now), Sequences({0, 2, 3})}, from, Pass::nowhere()).value();
  const auto map = [&](const Tensor& x, const char* name) {
    return linear(Var(x), Var(bench[std::string("part.") + name + ".weight"])).value();
  };
  const Tensor q = map(before, "q"), k = map(now, "k"), v = map(now, "v");
  Tensor found = zeros({5, 4}, DType::f64);
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t begin = i < 3 ? 0 : 2, end = i < 3 ? 2 : 3;
    double total = 0;
    std::vector<double> weights;
    for (int64_t j = begin; j < end; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < 4; ++c) sum += value_at(q, i * 4 + c) * value_at(k, j * 4 + c);
      weights.push_back(std::exp(sum / 2));
      total += weights.back();
    }
    for (int64_t j = begin; j < end; ++j)
      for (int64_t c = 0; c < 4; ++c)
        set_value(found, i * 4 + c,
                  value_at(found, i * 4 + c) + weights[size_t(j - begin)] / total * value_at(v, j * 4 + c));
  }
  EXPECT_LE(kit::largest_difference(y, kit::sum(before, map(found, "out"))), 1e-12);
}

}  // namespace
}  // namespace lithe
