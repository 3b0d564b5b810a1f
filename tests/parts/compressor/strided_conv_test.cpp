#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Conv {
  kit::Bench bench;
  std::unique_ptr<Compressor> part;
  explicit Conv(const std::string& options, int64_t d = 2)
      : part(bench.make<Compressor>("strided_conv", {.hidden_size = d, .causal = false}, options)) {}
  Compressor::Shorter operator()(const Tensor& x, const Sequences& sequences) {
    return part->forward({Var(x), sequences}, Pass::nowhere());
  }
  int64_t rows_of(int64_t m) { return (*this)(zeros({m, 2}, DType::f64), Sequences::single(m)).rows.x.rows(); }
  /// Every tap is `factor` times the identity, without a bias.
  void average(double factor, int64_t kernel, int64_t d = 2) {
    const Tensor w = bench["part.weight"];
    fill_zero(w);
    for (int64_t t = 0; t < kernel; ++t)
      for (int64_t c = 0; c < d; ++c) set_value(w, (t * d + c) * d + c, factor);
  }
};

// oracle: seqc.strided_conv
TEST(StridedConvCompressor, LeavesFloorOfItsFormula) {
  EXPECT_EQ(Conv("{}").rows_of(100), 50);
  EXPECT_EQ(Conv("{}").rows_of(101), 50);
  EXPECT_EQ(Conv("{pad_last: true}").rows_of(101), 51);
  EXPECT_EQ(Conv("{pad_last: true}").rows_of(100), 50);
  EXPECT_EQ(Conv("{}").rows_of(1), 1);
  for (const int64_t m : {3, 4, 10, 11, 12})
    for (const int64_t k : {2, 3})
      for (int64_t s = 1; s <= k; ++s)
        for (int64_t p = 0; p < k; ++p)
          EXPECT_EQ(Conv(cat("{kernel: ", k, ", stride: ", s, ", padding: ", p, "}")).rows_of(m),
                    (m + 2 * p - k) / s + 1);
  EXPECT_EQ(Conv("{kernel: 3, stride: 2, sees: left}").rows_of(10), 5);
  EXPECT_EQ(Conv("{kernel: 3}").bench.parameters().count(), 3 * 2 * 2 + 2);
}

TEST(StridedConvCompressor, OfOnesItIsTheIdentityAndAMeanIsPooling) {
  const Tensor x = kit::normal({9, 2}, DType::f64, 1);
  const Sequences sequences({0, 5, 9});
  Conv same("{kernel: 1, stride: 1}");
  same.average(1, 1);
  EXPECT_EQ(kit::bit_difference(same(x, sequences).rows.x.value(), x), "");
  Conv mean("{kernel: 2, stride: 2}");
  mean.average(0.5, 2);
  const Compressor::Shorter y = mean(x, sequences);
  EXPECT_EQ(y.rows.sequences.offsets(), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(y.row_of, (std::vector<int64_t>{0, 0, 1, 1, -1, 2, 2, 3, 3}));
  kit::Bench bench;
  const auto pool = bench.make<Compressor>("pool", {.hidden_size = 2, .causal = false}, "{}");
  const Tensor pooled = pool->forward({Var(x), sequences}, Pass::nowhere()).rows.x.value();  // 3 and 2 rows
  EXPECT_LE(kit::largest_difference(y.rows.x.value().slice(0, 2), pooled.slice(0, 2)), 1e-12);
  EXPECT_LE(kit::largest_difference(y.rows.x.value().slice(2, 4), pooled.slice(3, 5)), 1e-12);
}

TEST(StridedConvCompressor, WithZerosOnTheLeftNoRowSeesLaterOnes) {
  const Sequences sequences = Sequences::single(7);
  Conv conv("{kernel: 3, stride: 2, sees: left}");
  kit::randomise(conv.bench.parameters(), 2);
  const Tensor x = kit::normal({7, 2}, DType::f64, 1), other = clone(x);
  set_value(other, 2 * 5, 9);
  const Compressor::Shorter a = conv(x, sequences), b = conv(other, sequences);
  EXPECT_EQ(a.row_of, (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(kit::bit_difference(clone(a.rows.x.value().slice(0, 3)), clone(b.rows.x.value().slice(0, 3))), "");
  EXPECT_NE(kit::bit_difference(a.rows.x.value(), b.rows.x.value()), "");
}

TEST(StridedConvCompressor, RefusesWhatLeavesRowsOut) {
  EXPECT_EQ(kit::error_of([] { Conv("{kernel: 2, stride: 3}"); }),
            "strided_conv: stride 3 and padding 0 must be at most and below the kernel of 2 rows; raise kernel");
  EXPECT_NE(kit::error_of([] { Conv("{kernel: 2, pad_last: true, sees: left}"); }).find("sees: left"),
            std::string::npos);
}

ModelConfig stages(const std::string& compressor, const std::string& more = "") {
  return kit::model_config(
      "{architecture: encoder, hidden_size: 8, num_hidden_layers: 6, vocab_size: 11, max_position_embeddings: 40, "
      "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, "
      "intermediate_size: 6}, head: classify, layers: {whole: {}, down: {compressor: " +
          compressor + "}}, layer_types: [down, whole, down, whole, down, whole]}",
      more);
}

// Three stages of two layers, each on half the rows [TB 6.4.8].
// oracle: seqc.progressive
TEST(StridedConvCompressor, StagesShortenByTheProductOfTheirFactors) {
  const Model model(stages("strided_conv"), kit::kExact);
  const kit::Batch batch = kit::random_batch({32, 9}, model.config(), 5);
  // 32 -> 16 -> 8 -> 4, and 9 -> 4 -> 2 -> 1
  EXPECT_EQ(kit::run(model, batch.ids, batch.sequences).sequences.offsets(), (std::vector<int64_t>{0, 4, 5}));
  const Model padded(stages("{type: strided_conv, pad_last: true}"), kit::kExact);
  EXPECT_EQ(kit::run(padded, batch.ids, batch.sequences).sequences.offsets(), (std::vector<int64_t>{0, 4, 6}));
}

TEST(StridedConvCompressor, StagesOfFactorOneAreAPlainStack) {
  Model model(stages("{type: pool, size: 1}"), kit::kExact),
      plain(stages("pool", "layers: {whole: {}}, layer_types: [whole, whole, whole, whole, whole, whole]"),
            kit::kExact);
  kit::copy_values(plain.parameters(), model.parameters());
  const kit::Batch batch = kit::random_batch({8, 3}, model.config(), 5);
  EXPECT_EQ(kit::bit_difference(kit::run(model, batch.ids, batch.sequences).x.value(),
                                kit::run(plain, batch.ids, batch.sequences).x.value()),
            "");
}

}  // namespace
}  // namespace lithe
