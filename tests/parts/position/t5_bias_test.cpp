#include <gtest/gtest.h>

#include "lithe/ops/attention.h"
#include "tests/parts/position/position_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// The number that is added for a distance is its bucket, so that the table shows the buckets.
std::vector<double> buckets(const std::string& options, bool causal, int64_t from, int64_t to) {
  kit::Bench bench;
  const auto part = bench.make<Position>(
      "t5_bias", {.hidden_size = 8, .max_position_embeddings = 16, .num_attention_heads = 1, .causal = causal},
      options);
  const Tensor table = bench["part.weight"];
  for (int64_t i = 0; i < table.rows(); ++i) set_value(table, i, double(i));
  const LogitBias bias = part->bias({{}, {}, Sequences(), Pass::nowhere()}, 1);
  std::vector<double> out;
  for (int64_t distance = from; distance <= to; ++distance) {
    const int64_t at = std::clamp<int64_t>(distance - bias.first, 0, bias.table.rows() - 1);
    out.push_back(value_at(bias.table.value(), at));
  }
  return out;
}

// Eight buckets up to a distance of 16: 0 to 3 have their own, then 4 + floor(4 log(d / 4) / log(4)).
TEST(T5Bias, NearDistancesHaveBucketsOfTheirOwnAndFarOnesShareThem) {
  EXPECT_EQ(buckets("{buckets: 8, max_distance: 16}", true, 0, 20),
            (std::vector<double>{0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(buckets("{buckets: 8, max_distance: 16}", false, -5, 5),
            (std::vector<double>{6, 6, 6, 6, 5, 0, 1, 2, 2, 2, 2}));
}

TEST(T5Bias, ZerosAddNothingAndAConstantChangesNothing) {
  const Tensor x = kit::normal({7, 8}, DType::f64, 1);
  for (const bool causal : {true, false}) {
    PositionedAttention biased("t5_bias", "{buckets: 6, max_distance: 8}", causal);
    const Tensor table = biased.bench["position.weight"];
    for (const double constant : {0.0, 3.0}) {
      for (int64_t i = 0; i < table.numel(); ++i) set_value(table, i, constant);
      kit::Bench plain;
      const auto mixer =
          plain.make<Mixer>("attention", {.hidden_size = 8, .max_position_embeddings = 16, .causal = causal},
                            "{num_attention_heads: 2}", "mixer");
      kit::copy_values(biased.bench.parameters(), plain.parameters());
      EXPECT_LE(kit::largest_difference(biased(x), mixer->forward({Var(x), Sequences::single(7), nullptr}).value()),
                1e-12);
    }
  }
}

// With logits of zero the weights are the softmax of the table's numbers: of distances alone.
TEST(T5Bias, WeightsDependOnTheDistanceAlone) {
  PositionedAttention biased("t5_bias", "{buckets: 6, max_distance: 8}", true);
  for (const char* name : {"mixer.heads.q.weight"})
    for (int64_t i = 0; i < biased.bench[name].numel(); ++i) set_value(biased.bench[name], i, 0);
  const int64_t T = 9;
  const MixerMaps maps = biased.mixer->maps({Var(kit::normal({T, 8}, DType::f64, 1)), Sequences::single(T), nullptr});
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t i = 1; i < T; ++i)
      for (int64_t j = 1; j <= i; ++j)
        EXPECT_NEAR(value_at(maps.logits, (head * T + i) * T + j),
                    value_at(maps.logits, (head * T + i - 1) * T + j - 1), 1e-6);
}

TEST(T5Bias, RefusesHeadsThatDiffer) {
  kit::Bench bench;
  EXPECT_NE(kit::coded_error_of([&] {
              bench.make<Position>("t5_bias", {.hidden_size = 8, .max_position_embeddings = 16});
            }).find("2 t5_bias: one table serves all layers, whose mixers must have one and the same"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
