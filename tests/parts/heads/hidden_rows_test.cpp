#include "tests/parts/heads/attention_bench.h"
#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

const char* const kXlModel =
    "{vocab_size: 11, hidden_size: 8, max_position_embeddings: 32, num_hidden_layers: 2, position: {type: xl, "
    "max_distance: 4}, "
    "mixer: {type: attention, num_attention_heads: 2, heads: hidden_rows, field: {type: span, left: 4}}, "
    "ffn: {type: relu, intermediate_size: 12}}";

std::unique_ptr<Model> xl_model(const std::string& more = "") {
  auto model = std::make_unique<Model>(kit::model_config(kXlModel, more),
                                       ModelOptions{.dtype = DType::f64, .compute = DType::f64, .trainable = true});
  kit::randomise(model->parameters(), 5);
  return model;
}

Var segment(const Model& model, const Tensor& ids, int64_t begin, int64_t end, DecodeState& state) {
  return kit::forward(model, ids.slice(begin, end), model.continue_sequences(state, {end - begin}), &state);
}

TEST(HiddenRows, AreTheHeadsThatTheyWrap) {
  MixerAlone rows_kept("attention", "heads: {type: hidden_rows, of: {type: gqa, num_key_value_heads: 1}}"),
      plain("attention", "heads: {type: gqa, num_key_value_heads: 1}");
  share(rows_kept, plain);
  EXPECT_LT(kit::largest_difference(rows_kept(rows(9)), plain(rows(9))), 1e-12);
  EXPECT_EQ(rows_kept.mixer->state_bytes({10}, DType::f32), 10 * kMemoryWidth * 4);
}

// oracle: mem.xl
TEST(HiddenRows, SegmentsWithAMemoryAreOneTextWithASpan) {
  const auto model = xl_model();
  const Tensor ids = kit::random_ids(24, 11, 2), whole = kit::forward(*model, ids, Sequences::single(24)).value();
  const NoGrad no_grad;
  for (const int64_t length : {1, 3, 8}) {
    const auto state = model->make_state(1, 24);
    for (int64_t at = 0; at < 24; at += length) {
      const Tensor part = segment(*model, ids, at, at + length, *state).value();
      EXPECT_LT(kit::largest_difference(part, whole.slice(at, at + length)), 1e-11) << length << " " << at;
    }
  }
}

// What turns by its position when it is read knows the gap behind the first tokens, in decoding and under a tape.
// oracle: infer.kv_evict
TEST(HiddenRows, OfAWindowAndTheFirstTokensHaveABound) {
  const Tensor x = kit::normal({400, 8}, DType::f64, 1);
  for (const char* heads : {"hidden_rows", "{type: hidden_rows, of: mhe_mul}", "el_att", "skv", "mhe_add"}) {
    const kit::AttentionBench bench(
        heads, 8, 2, "field: {type: union, fields: [{type: span, left: 20}, {type: global, tokens: 3}]}", true);
    const Tensor whole = bench(x);
    EXPECT_EQ(kit::close(bench.decoded(x, 150), whole, 64), "") << heads;
    EXPECT_EQ(bench.mixer->state_bytes({4096}, DType::f64), bench.mixer->state_bytes({64 * 1000}, DType::f64)) << heads;
    const auto state = bench.mixer->make_state({.sequences = 1, .capacity = 400, .dtype = DType::f64});
    for (int64_t at = 0; at < 400; at += 100) {
      Tape tape;
      const Tensor part =
          bench.mixer->forward({Var(x.slice(at, at + 100)), Sequences({0, 100}, {at}), state.get()}).value();
      EXPECT_EQ(kit::close(part, clone(whole.slice(at, at + 100)), 64), "") << heads << " from " << at;
    }
  }
}

TEST(HiddenRows, NoGradientReachesTheSegmentBeforeAndTheWeightsThatReadItHaveOne) {
  const auto model = xl_model();
  const auto state = model->make_state(1, 8);
  // Tokens 0 to 4 stand in the first segment alone.
  segment(*model, kit::ids_of({0, 1, 2, 3, 4, 0}), 0, 6, *state);
  Tape tape;
  const Var y = segment(*model, kit::ids_of({7, 8}), 0, 2, *state);
  tape.backward(y, kit::normal(y.shape(), DType::f64, 9));
  const Tensor table = model->parameters().find("embedding.weight")->master.grad();
  for (int64_t id = 0; id < 5; ++id)
    for (int64_t c = 0; c < 8; ++c) EXPECT_EQ(value_at(table, id * 8 + c), 0) << id;
  EXPECT_GT(std::abs(value_at(table, 7 * 8)), 0);
}

TEST(HiddenRows, TheMemoryIsOfTheRowsBeforeAnUpdateAndReadByTheWeightsAfterIt) {
  const auto model = xl_model("num_hidden_layers: 1");
  const Tensor ids = kit::random_ids(8, 11, 4);
  const NoGrad no_grad;
  const auto state = model->make_state(1, 8);
  segment(*model, ids, 0, 4, *state);
  for (Parameter& p : model->parameters().all())
    if (p.name.find("heads") != std::string::npos)
      for (int64_t i = 0; i < p.master.value().numel(); ++i)
        set_value(p.master.value(), i, 1.5 * value_at(p.master.value(), i));
  // One layer reads the embedded rows, which did not change: as if the new weights had read all of it.
  EXPECT_LT(kit::largest_difference(segment(*model, ids, 4, 8, *state).value(),
                                    kit::forward(*model, ids, Sequences::single(8)).value().slice(4, 8)),
            1e-11);
}

TEST(HiddenRows, RefuseHeadsThatReadTheEmbedding) {
  const std::string error =
      kit::coded_error_of([] { MixerAlone("attention", "heads: {type: hidden_rows, of: static_emb_qk}"); });
  EXPECT_NE(error.find("2 hidden_rows: heads static_emb_qk read each token's own embedding"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace lithe
