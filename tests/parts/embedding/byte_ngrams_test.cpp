#include <gtest/gtest.h>

#include "lithe/nn/recalling_embedding.h"
#include "lithe/ops/ngram_memory.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TEST(ByteNgramsEmbedding, IsTheMeanOfItsRows) {
  kit::Bench bench;
  const auto part = bench.make<Embedding>("byte_ngrams", {.vocab_size = 6, .hidden_size = 3},
                                          "{group_sizes: [2, 4], num_buckets: 7, num_hash_functions: 2}");
  kit::randomise(bench.parameters(), 1);
  EXPECT_EQ(bench.parameters().count(), 3 * (6 + 4 * 7));
  const std::vector<int> ids{5, 0, 3, 0, 3, 4, 4};
  const Sequences sequences({0, 5, 7});
  const Tensor got = dynamic_cast<RecallingEmbedding&>(*part).read(kit::ids_of(ids), sequences, nullptr).value();
  for (int64_t n = 0; n < 7; ++n) {
    const Tensor recent = empty({1, 4}, DType::i32);
    for (int64_t k = 0; k < 4; ++k) recent.data<int32_t>()[k] = n - k >= (n < 5 ? 0 : 5) ? ids[size_t(n - k)] : -1;
    for (int64_t c = 0; c < 3; ++c) {
      double sum = value_at(bench["part.weight"], ids[size_t(n)] * 3 + c);
      for (int64_t table = 0; table < 4; ++table)
        sum += value_at(bench[cat("part.ngram.", table, ".weight")],
                        rolling_hash_ids(recent, table < 2 ? 2 : 4, table % 2, 7).data<int32_t>()[0] * 3 + c);
      EXPECT_NEAR(value_at(got, n * 3 + c), sum / 5, 1e-14);
    }
  }
}

ModelConfig byte_model() {
  return kit::model_config(
      "{vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: 16, position: sinusoidal, "
      "mixer: "
      "{type: attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 8}, embedding: {type: "
      "byte_ngrams, group_sizes: [3, 5], num_buckets: 13}}");
}

// The state keeps the ids of the longest n-gram but one; reordered, saved and restored it goes on as the whole text.
TEST(ByteNgramsEmbedding, DecodingIsTheWhole) {
  Model model(byte_model(), kit::kExact);
  kit::randomise(model.parameters(), 1);
  const kit::Batch two = kit::random_batch({9, 9}, model.config(), 4);
  const Tensor all = kit::forward(model, two).value();
  auto state = model.make_state(2, 9);
  for (int64_t t = 0; t < 9; t += 3) {
    const Tensor ids = empty({6}, DType::i32);
    for (int64_t b = 0; b < 2; ++b)  // the sequences have changed places
      for (int64_t i = 0; i < 3; ++i)
        ids.data<int32_t>()[b * 3 + i] = two.ids.data<int32_t>()[(t == 0 ? b : 1 - b) * 9 + t + i];
    const Tensor rows = kit::forward(model, ids, Sequences({0, 3, 6}, {t, t}), state.get()).value();
    for (int64_t b = 0; b < 2; ++b) {
      const int64_t of = (t == 0 ? b : 1 - b) * 9 + t;
      EXPECT_EQ(kit::close(clone(rows.slice(b * 3, b * 3 + 3)), clone(all.slice(of, of + 3)), 64), "");
    }
    EXPECT_EQ(state->bytes(), model.state_bytes({t + 3, t + 3}));
    if (t == 0) state->reorder({1, 0});
    if (t == 3) {
      NamedTensors kept;
      for (const auto& [name, x] : state->save()) kept[name] = clone(x);
      state = model.make_state(2, 9);
      state->restore(kept);
    }
  }
  EXPECT_EQ(model.state_bytes({5}) - 5 * 2 * 8 * 8, 4 * 4);  // beside the keys and values
}

TEST(ByteNgramsEmbedding, RefusesOtherTokensAndSizes) {
  kit::Bench bench;
  EXPECT_THROW(bench.make<Embedding>("byte_ngrams", {.vocab_size = 6, .hidden_size = 3, .token_width = 5}), Error);
  EXPECT_THROW(bench.make<Embedding>("byte_ngrams", {.vocab_size = 6, .hidden_size = 3}, "{group_sizes: [1]}", "b"),
               Error);
  EXPECT_THROW(bench.make<Embedding>("byte_ngrams", {.vocab_size = 6, .hidden_size = 3}, "{group_sizes: []}", "c"),
               Error);
}

}  // namespace
}  // namespace lithe
