#include <gtest/gtest.h>

#include <cmath>

#include "lithe/parts/common/sinkhorn.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Blocks {
  explicit Blocks(const std::string& options, const std::string& type = "sinkhorn")
      : mixer(bench.make<Mixer>(type, {.hidden_size = 8, .max_position_embeddings = 20, .causal = false}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// One block, seen twice: full attention.
// oracle: sparse.sort
TEST(Sinkhorn, ABlockOfAllTokensIsFullAttention) {
  const Blocks one("{num_attention_heads: 2, size: 9}"), full("{num_attention_heads: 2}", "attention");
  for (const int64_t tokens : {1, 5, 9}) {
    const Tensor x = kit::normal({tokens, 8}, DType::f64, 1);
    EXPECT_LE(kit::largest_difference(one(x), full(x)), 1e-12);
  }
}

// oracle: sparse.sort
TEST(Sinkhorn, MakesMatricesDoublyStochastic) {
  const Tensor p = sinkhorn(kit::normal({6, 9}, DType::f64, 1), 6, 60).value();
  for (int64_t a = 0; a < 6; ++a) {
    double row = 0, column = 0;
    for (int64_t b = 0; b < 6; ++b) {
      EXPECT_GT(value_at(p, a * 6 + b), 0);
      row += value_at(p, a * 6 + b), column += value_at(p, b * 6 + a);
    }
    EXPECT_NEAR(row, 1, 1e-4);
    EXPECT_NEAR(column, 1, 1e-12);
  }
}

// Keys and values written out: a query's own block, and the mixture of blocks in its place.
// oracle: sparse.sort
TEST(Sinkhorn, SeesItsBlockAndAMixtureOfAll) {
  Blocks blocks("{num_attention_heads: 1, size: 3, iterations: 4}");
  const int64_t T = 8, c = 3, n = 3;
  const Tensor x = kit::normal({T, 8}, DType::f64, 1), y = blocks(x),
               q = kit::product(x, blocks.bench["part.heads.q.weight"]),
               k = kit::product(x, blocks.bench["part.heads.k.weight"]),
               v = kit::product(kit::product(x, blocks.bench["part.heads.v.weight"]),
                                blocks.bench["part.output.weight"]);
  EXPECT_EQ(blocks.bench["part.permute.weight"].shape(), (Shape{8, 7}));  // 20 tokens are 7 blocks
  const Tensor sums = zeros({n, 8}, DType::f64);
  for (int64_t i = 0; i < T * 8; ++i)
    set_value(sums, i / 8 / c * 8 + i % 8, value_at(sums, i / 8 / c * 8 + i % 8) + value_at(x, i));
  const Tensor p = sinkhorn(kit::product(sums, blocks.bench["part.permute.weight"]), n, 4).value();
  const auto at = [&](const Tensor& of, int64_t row, int64_t d) { return row < T ? value_at(of, row * 8 + d) : 0; };
  for (int64_t i = 0; i < T; ++i) {
    std::vector<double> weights;
    std::vector<std::vector<double>> values;
    const auto see = [&](const auto& key, const auto& value) {
      double dot = 0;
      values.emplace_back();
      for (int64_t d = 0; d < 8; ++d) dot += value_at(q, i * 8 + d) * key(d), values.back().push_back(value(d));
      weights.push_back(std::exp(dot / std::sqrt(8.0)));
    };
    for (int64_t j = i / c * c; j < std::min(T, i / c * c + c); ++j)
      see([&](int64_t d) { return at(k, j, d); }, [&](int64_t d) { return at(v, j, d); });
    for (int64_t s = 0; s < c; ++s) {
      const auto mixed = [&](const Tensor& of, int64_t d) {
        double sum = 0;
        for (int64_t b = 0; b < n; ++b) sum += value_at(p, i / c * n + b) * at(of, b * c + s, d);
        return sum;
      };
      see([&](int64_t d) { return mixed(k, d); }, [&](int64_t d) { return mixed(v, d); });
    }
    double sum = 0;
    for (const double w : weights) sum += w;
    for (int64_t d = 0; d < 8; ++d) {
      double want = 0;
      for (size_t s = 0; s < weights.size(); ++s) want += weights[s] / sum * values[s][size_t(d)];
      EXPECT_NEAR(value_at(y, i * 8 + d), want, 1e-12) << i;
    }
  }
}

TEST(Sinkhorn, SaysWhatItCannotRead) {
  const Blocks blocks("{num_attention_heads: 1, size: 4}");
  EXPECT_EQ(blocks.mixer->limit(), 20);
  EXPECT_THROW(blocks(kit::normal({21, 8}, DType::f64, 1)), Error);
  EXPECT_THROW(blocks.mixer->make_state({1, 8, DType::f64, Device::cpu}), Error);
}

}  // namespace
}  // namespace lithe
