#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// oracle: seqc.latents
TEST(LatentsCompressor, RowsAreWhatLearnedQueriesRead) {
  kit::Bench bench;
  const auto part =
      bench.make<Compressor>("latents", {.hidden_size = 6, .causal = false}, "{rows: 4, num_attention_heads: 2}");
  EXPECT_EQ(bench.parameters().count(), 4 * 6 + 4 * 6 * 6);
  kit::randomise(bench.parameters(), 2);
  const auto run = [&](const Tensor& x, const Sequences& sequences) {
    const Compressor::Shorter y = part->forward({Var(x), sequences}, Pass::nowhere());
    EXPECT_EQ(y.row_of, std::vector<int64_t>(size_t(x.rows()), -1));
    return y.rows;
  };
  const Tensor x = kit::normal({9, 6}, DType::f64, 1);
  const Rows y = run(x, Sequences({0, 8, 9}));
  EXPECT_EQ(y.sequences.offsets(), (std::vector<int64_t>{0, 4, 8}));
  EXPECT_EQ(y.x.shape(), (Shape{8, 6}));
  for (int64_t r = 1; r < 4; ++r)  // one row to read: all read the same
    EXPECT_LE(kit::largest_difference(y.x.value().slice(4 + r, 5 + r), y.x.value().slice(4, 5)), 1e-12);
  // The order of the rows does not count, that of the latents is that of the results.
  const std::vector<int64_t> order{3, 0, 7, 1, 6, 2, 5, 4};
  const Tensor permuted = pick_rows(Var(x), order).value();
  EXPECT_LE(kit::largest_difference(run(permuted, Sequences({0, 8})).x.value(), y.x.value().slice(0, 4)), 1e-12);
  const Tensor latents = clone(bench["part.latents"]);
  copy_into(bench["part.latents"], pick_rows(Var(latents), {2, 3, 1, 0}).value());
  EXPECT_LE(
      kit::largest_difference(run(x, Sequences({0, 8, 9})).x.value(), pick_rows(y.x, {2, 3, 1, 0, 6, 7, 5, 4}).value()),
      1e-12);
  // By the formula, head after head.
  copy_into(bench["part.latents"], latents);
  const Var q = linear(Var(latents), Var(bench["part.q.weight"])), k = linear(Var(x), Var(bench["part.k.weight"])),
            v = linear(Var(x), Var(bench["part.v.weight"]));
  Tensor context = zeros({4, 6}, DType::f64);
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t r = 0; r < 4; ++r) {
      std::vector<double> weights;
      double total = 0;
      for (int64_t i = 0; i < 8; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < 3; ++c)
          sum += value_at(q.value(), r * 6 + 3 * h + c) * value_at(k.value(), i * 6 + 3 * h + c);
        weights.push_back(std::exp(sum / std::sqrt(3.)));
        total += weights.back();
      }
      for (int64_t c = 0; c < 3; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < 8; ++i) sum += weights[size_t(i)] / total * value_at(v.value(), i * 6 + 3 * h + c);
        set_value(context, r * 6 + 3 * h + c, sum);
      }
    }
  EXPECT_LE(
      kit::largest_difference(linear(Var(context), Var(bench["part.out.weight"])).value(), y.x.value().slice(0, 4)),
      1e-12);
}

TEST(LatentsCompressor, AHeadForEveryTokenReadsThemByAttention) {
  Model model(
      kit::model_config(
          "{architecture: encoder, hidden_size: 8, num_hidden_layers: 3, vocab_size: 11, "
          "max_position_embeddings: 9, num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, "
          "num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 6}, head: tag, layers: {whole: {}, few: "
          "{compressor: {type: latents, rows: 3}}, again: {expander: {type: attend, num_attention_heads: 2}}}, "
          "layer_types: [whole, few, again]}"),
      kit::kTrainable);
  kit::randomise(model.parameters(), 3);
  const kit::Batch batch = kit::random_batch({7, 1, 4}, model.config(), 5);
  EXPECT_EQ(model.logits(kit::run(model, batch.ids, batch.sequences)).shape(), (Shape{12, 3}));
  for (const bool recompute : {false, true}) {
    model.set_recompute(recompute);
    std::string where;
    EXPECT_LE(kit::gradient_error(
                  model.parameters(),
                  [&](const std::vector<Var>&) {
                    return std::vector<Var>{kit::loss(model, batch, kit::labels_for(model, batch), 0, 1)};
                  },
                  {}, &where),
              1e-6)
        << recompute << where;
  }
}

}  // namespace
}  // namespace lithe
