#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Memory {
  explicit Memory(const std::string& options) : part(bench.make<Ffn>("product_keys", {.hidden_size = 6}, options)) {
    kit::randomise(bench.parameters(), 5, 0.7);
  }
  Tensor operator()(const Tensor& x) const {
    return part->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Ffn> part;
};

// The best p of all N keys, one by one.
// oracle: lowdim.product_keys
TEST(ProductKeysFfn, FindsTheBestOfAllKeys) {
  constexpr int64_t n = 7, d = 6, p = 3, half = d / 2;
  Memory memory("{sub_keys: 7, num_heads: 1, top_k: 3, query_map: false}");
  const Tensor keys = memory.bench["part.keys.weight"], values = memory.bench["part.values.weight"];
  const Tensor x = kit::normal({5, d}, DType::f64, 1), y = memory(x);
  for (int64_t i = 0; i < 5; ++i) {
    std::vector<std::pair<double, int64_t>> scores;
    for (int64_t a = 0; a < n; ++a)
      for (int64_t b = 0; b < n; ++b) {
        double dot = 0;
        for (int64_t c = 0; c < half; ++c)
          dot += value_at(x, i * d + c) * value_at(keys, a * d + c) +
                 value_at(x, i * d + half + c) * value_at(keys, b * d + half + c);
        scores.emplace_back(-dot, a * n + b);
      }
    std::sort(scores.begin(), scores.end());
    double total = 0;
    std::vector<double> want(d, 0.0);
    for (int64_t j = 0; j < p; ++j) {
      const double weight = std::exp(-scores[size_t(j)].first);
      total += weight;
      for (int64_t c = 0; c < d; ++c) want[size_t(c)] += weight * value_at(values, scores[size_t(j)].second * d + c);
    }
    for (int64_t c = 0; c < d; ++c) EXPECT_NEAR(value_at(y, i * d + c), want[size_t(c)] / total, 1e-12);
  }
}

// oracle: lowdim.product_keys
TEST(ProductKeysFfn, CountsItsNumbers) {
  EXPECT_EQ(Memory("{sub_keys: 7, num_heads: 1, top_k: 3, query_map: false}").bench.parameters().count(),
            2 * 7 * 3 + 49 * 6);
  EXPECT_EQ(Memory("{sub_keys: 5, num_heads: 3, top_k: 2, query_dim: 4}").bench.parameters().count(),
            3 * 2 * 5 * 2 + 25 * 6 + 6 * 3 * 4);
}

TEST(ProductKeysFfn, RefusesWhatCannotBe) {
  const auto refusal = [](const std::string& options) { return kit::coded_error_of([&] { Memory of(options); }); };
  EXPECT_NE(refusal("{query_dim: 5}").find("must be even"), std::string::npos);
  EXPECT_NE(refusal("{sub_keys: 3, top_k: 4}").find("more than the 3 sub_keys"), std::string::npos);
  EXPECT_NE(refusal("{query_map: false}").find("num_heads: 1"), std::string::npos);
}

}  // namespace
}  // namespace lithe
