#include <gtest/gtest.h>

#include <cmath>

#include "tests/parts/position/position_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// Slopes 1/4, 1/16, 1/64, 1/256 of four heads: logits differ from those without by -slope |i - j|.
// oracle: attn.alibi
TEST(Alibi, LogitsFallWithTheDistance) {
  const int64_t T = 6;
  const Var x = kit::normal({T, 8}, DType::f64, 1);
  for (const bool causal : {true, false}) {
    PositionedAttention biased("alibi", "{}", causal, 4);
    kit::Bench plain;
    const auto mixer =
        plain.make<Mixer>("attention", {.hidden_size = 8, .max_position_embeddings = 16, .causal = causal},
                          "{num_attention_heads: 4}", "mixer");
    kit::copy_values(biased.bench.parameters(), plain.parameters());
    const Tensor with = biased.mixer->maps({x, Sequences::single(T), nullptr}).logits,
                 without = mixer->maps({x, Sequences::single(T), nullptr}).logits;
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t i = 0; i < T; ++i)
        for (int64_t j = 0; j < (causal ? i + 1 : T); ++j) {
          const int64_t at = (h * T + i) * T + j;
          EXPECT_NEAR(value_at(with, at),
                      value_at(without, at) - std::exp2(-2.0 * double(h + 1)) * double(std::abs(i - j)), 1e-5);
        }
  }
}

TEST(Alibi, RefusesHeadsThatDiffer) {
  kit::Bench bench;
  EXPECT_NE(kit::coded_error_of([&] {
              bench.make<Position>("alibi", {.hidden_size = 8, .max_position_embeddings = 16});
            }).find("2 alibi: slopes serve all layers"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
