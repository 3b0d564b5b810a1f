#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct TwoHeads {
  explicit TwoHeads(const std::string& heads)
      : mixer(bench.make<Mixer>("attention", {.hidden_size = 8, .max_position_embeddings = 90},
                                "{num_attention_heads: 2, heads: " + heads + "}")) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// [I I]: a unit matrix for each of two heads.
void make_unit(const Tensor& w) {
  for (int64_t i = 0; i < w.numel(); ++i) set_value(w, i, i / w.cols() == i % w.cols() % w.rows());
}

// oracle: lowdim.reduce_d
TEST(ReducedHeads, OfFullWidthWithUnitMapsAreMha) {
  TwoHeads reduced("{type: reduced, reduced_dim: 4}"), mha("mha");
  make_unit(reduced.bench["part.heads.reduce_q.weight"]);
  make_unit(reduced.bench["part.heads.reduce_k.weight"]);
  for (Parameter& p : mha.bench.parameters().all()) copy_into(p.master.value(), reduced.bench[p.name]);
  const Tensor x = kit::normal({9, 8}, DType::f64, 1);
  EXPECT_LE(kit::largest_difference(reduced(x), mha(x)), 1e-12);
}

// oracle: lowdim.reduce_d
TEST(ReducedHeads, CountTheirNumbersAndCacheNarrowKeys) {
  TwoHeads reduced("{type: reduced, reduced_dim: 2}");
  EXPECT_EQ(reduced.bench.parameters().count(), 4 * 8 * 8 + 2 * 8 * 2);
  EXPECT_EQ(reduced.mixer->state_bytes({10}, DType::f64), 10 * (2 * 2 + 8) * 8);
  EXPECT_EQ(TwoHeads("reduced").bench["part.heads.reduce_q.weight"].cols(), 2);  // a quarter of 4, for both heads
}

TEST(ReducedHeads, RefuseToBeWider) {
  EXPECT_NE(kit::coded_error_of([] {
              TwoHeads("{type: reduced, reduced_dim: 5}");
            }).find("2 heads: reduced_dim 5 must be at most head_dim 4"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
