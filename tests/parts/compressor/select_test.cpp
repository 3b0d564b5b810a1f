#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Compressor::Shorter selected(const std::string& options, const Tensor& x, const Sequences& sequences,
                             const Tensor& received = {}) {
  kit::Bench bench;
  const auto part = bench.make<Compressor>("select", {.hidden_size = x.cols(), .causal = false}, options);
  const Pass pass;
  if (received.defined()) pass.within(0).put(Tap::Kind::received, Var(received));
  return part->forward({Var(x), sequences}, pass.within(1));
}

std::vector<int64_t> rows_of(const Compressor::Shorter& y) {
  std::vector<int64_t> out(size_t(y.rows.x.rows()), -1);
  for (size_t row = 0; row < y.row_of.size(); ++row)
    if (y.row_of[row] >= 0) out[size_t(y.row_of[row])] = int64_t(row);
  return out;
}

// oracle: seqc.fixed_select
TEST(SelectCompressor, TakesRowsByTheirPlaceOrImportance) {
  const Tensor x = kit::normal({12, 3}, DType::f64, 1);
  const Sequences sequences({0, 10, 12});
  const auto rows = [&](const std::string& options, const Tensor& received = {}) {
    const Compressor::Shorter y = selected(options, x, sequences, received);
    const std::vector<int64_t> out = rows_of(y);
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_TRUE(i == 0 || out[i] > out[i - 1]) << "indices increase";
      EXPECT_EQ(kit::bit_difference(clone(y.rows.x.value().slice(int64_t(i), int64_t(i) + 1)),
                                    clone(x.slice(out[i], out[i] + 1))),
                "");
      EXPECT_EQ(y.rows.sequences.positions().data<int32_t>()[i], out[i] < 10 ? out[i] : out[i] - 10);
    }
    return out;
  };
  EXPECT_EQ(rows("{rows: 4}"), (std::vector<int64_t>{0, 2, 5, 7, 10, 11}));
  EXPECT_EQ(rows("{rows: 4, which: ends}"), (std::vector<int64_t>{0, 3, 6, 9, 10, 11}));
  EXPECT_EQ(rows("{rows: 3, which: first}"), (std::vector<int64_t>{0, 1, 2, 10, 11}));
  EXPECT_EQ(rows("{rows: 1, which: last}"), (std::vector<int64_t>{9, 11}));
  EXPECT_EQ(rows("{rows: 1, which: ends}"), (std::vector<int64_t>{0, 10}));
  const Tensor received = kit::tensor_f64({12, 1}, {.1, .3, .1, .2, 0, 0, .3, 0, 0, 0, .4, .6});
  EXPECT_EQ(rows("{rows: 3, which: top}", received), (std::vector<int64_t>{1, 3, 6, 10, 11}));
  // r >= m is the identity.
  for (const std::string which : {"even", "ends", "first", "last", "top"}) {
    const Compressor::Shorter all = selected("{rows: 10, importance: norm, which: " + which + "}", x, sequences);
    EXPECT_EQ(kit::bit_difference(all.rows.x.value(), x), "") << which;
    EXPECT_EQ(all.rows.sequences.offsets(), sequences.offsets());
  }
}

TEST(SelectCompressor, TheMostImportantAreThoseOfTheLayerBelow) {
  const auto model = [](const std::string& types) {
    return kit::model_config(
        "{architecture: encoder, hidden_size: 8, num_hidden_layers: 2, vocab_size: 11, max_position_embeddings: 9, "
        "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: "
        "gelu, "
        "intermediate_size: 6}, head: classify, layers: {whole: {}, three: {compressor: {type: select, rows: 3, which: "
        "top}}}, layer_types: " +
        types + "}");
  };
  Model one(model("[whole, three]"), kit::kTrainable);
  kit::randomise(one.parameters(), 3);
  const kit::Batch batch = kit::random_batch({7, 1, 4}, one.config(), 5);
  const Rows rows = kit::run(one, batch.ids, batch.sequences);
  EXPECT_EQ(rows.sequences.offsets(), (std::vector<int64_t>{0, 3, 4, 7}));
  const kit::Batch alone = kit::alone(batch, 0);
  EXPECT_EQ(kit::bit_difference(kit::run(one, alone.ids, alone.sequences).x.value(), clone(rows.x.value().slice(0, 3))),
            "");
  EXPECT_NE(
      kit::error_of([&] { Model(model("[three, whole]"), kit::kMeta); }).find("layers.0: the compressor looks at"),
      std::string::npos);
}

}  // namespace
}  // namespace lithe
