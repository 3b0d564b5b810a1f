#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/parts/mixer/fixed_maps_kit.h"

namespace lithe {
namespace {

const std::string kFixedSeq = "{type: fixed_seq_qk, num_attention_heads: 3}";

// oracle: decon.fixedseqqk
TEST(FixedSeqQk, MapsAreTheSameForAnyText) { expect_the_same_maps_for_any_text(*three_layers_of(kFixedSeq)); }

TEST(FixedSeqQk, IsLinearInTheValues) {
  kit::Bench bench;
  const auto mixer =
      bench.make<Mixer>("fixed_seq_qk", {.hidden_size = 6, .max_position_embeddings = 9}, "{num_attention_heads: 3}");
  kit::randomise(bench.parameters(), 2);
  const Sequences sequences({0, 5, 7});
  const Tensor reference = kit::normal({5, 6}, DType::f64, 1), x = kit::normal({7, 6}, DType::f64, 2),
               y = kit::normal({7, 6}, DType::f64, 3);
  Pass model;
  model.set_references({Var(reference)});
  const Pass pass = model.within(0);
  const auto run = [&](const Tensor& rows) { return mixer->forward({Var(rows), sequences, nullptr, pass}).value(); };
  EXPECT_EQ(kit::close(run(kit::sum(x, y)), kit::sum(run(x), run(y)), 64), "");
}

// The batch shares one copy of the keys: (B + 1) L d scalars.
TEST(FixedSeqQk, CountsParametersAndState) {
  const auto m = three_layers_of(kFixedSeq), standard = three_layers_of("{type: attention, num_attention_heads: 3}");
  EXPECT_EQ(m->parameters().count(), standard->parameters().count());
  for (int64_t B : {1, 4}) {
    EXPECT_EQ(m->state_bytes(std::vector<int64_t>(size_t(B), 8)), 3 * (B + 1) * 8 * 12 * 8);
    const auto state = m->make_state(B, 9);
    const Tensor ids = kit::random_ids(8 * B, 19, 1);
    m->forward(ids, m->continue_sequences(*state, std::vector<int64_t>(size_t(B), 8)), state.get());
    EXPECT_EQ(state->bytes(), 3 * (B + 1) * 8 * 12 * 8);
  }
  // B = 1, L = 2048, d = 896 in half precision: as much as standard attention; B = 32: 0.516 of it.
  kit::Bench bench(DType::f32, DType::f32, Device::meta);
  const auto wide = bench.make<Mixer>("fixed_seq_qk", {.hidden_size = 896, .max_position_embeddings = 2048},
                                      "{num_attention_heads: 14}");
  EXPECT_EQ(wide->state_bytes({2048}, DType::bf16), 7'340'032);
  EXPECT_EQ(wide->state_bytes(std::vector<int64_t>(32, 2048), DType::bf16), 121'110'528);
}

// Queries and keys of the last layer act on the text through the reference alone, and learn.
TEST(FixedSeqQk, QueriesAndKeysLearnThroughTheReference) {
  const auto m = three_layers_of(kFixedSeq, true);
  Tape tape;
  tape.backward(sum(m->forward(kit::random_ids(6, 19, 2), Sequences::single(6))));
  for (const char* name :
       {"layers.2.mixer.heads.q.weight", "layers.2.mixer.heads.k.weight", "layers.0.mixer.heads.v.weight"}) {
    const Tensor g = m->parameters().find(name)->master.grad();
    ASSERT_TRUE(g.defined()) << name;
    double total = 0;
    for (int64_t i = 0; i < g.numel(); ++i) total += std::abs(value_at(g, i));
    EXPECT_GT(total, 1e-9) << name;
  }
}

// The strongest oracle: the fixed sequence itself as the text is the standard model.
TEST(FixedSeqQk, TheFixedSequenceAsTextIsAttention) {
  for (const char* architecture : {"decoder", "encoder"}) {
    const std::vector<int> ids{3, 1, 18, 0, 7, 7, 2, 11, 4};
    const auto fixed = three_layers_of(
                   "{type: fixed_seq_qk, num_attention_heads: 3, reference_ids: [3, 1, 18, 0, 7, 7, 2, 11, 4]}", false,
                   architecture),
               standard = three_layers_of("{type: attention, num_attention_heads: 3}", false, architecture);
    kit::copy_values(fixed->parameters(), standard->parameters());
    const Sequences sequences = Sequences::single(9);
    EXPECT_EQ(kit::close(fixed->forward(kit::ids_of(ids), sequences).value(),
                         standard->forward(kit::ids_of(ids), sequences).value(), 256),
              "");
    EXPECT_GT(kit::largest_difference(fixed->forward(kit::ids_of({1, 2, 3}), Sequences::single(3)).value(),
                                      standard->forward(kit::ids_of({1, 2, 3}), Sequences::single(3)).value()),
              1e-3);
  }
}

// An encoder's reference is whole whatever the batch; a text reads the maps among its first rows.
TEST(FixedSeqQk, AnEncodersMapsAreThoseOfTheLengthForAnyText) {
  const auto m = three_layers_of(kFixedSeq, false, "encoder");
  const auto a = kit::maps(*m, kit::random_ids(7, 19, 3)), b = kit::maps(*m, kit::random_ids(7, 19, 4));
  for (size_t layer = 0; layer < 3; ++layer) EXPECT_EQ(kit::bit_difference(a[layer].weights, b[layer].weights), "");
  EXPECT_THROW(m->forward(kit::random_ids(10, 19, 3), Sequences::single(10)), Error);
}

// Rows of the table that only the fixed sequence names have a gradient.
TEST(FixedSeqQk, TheTableLearnsFromTheFixedSequence) {
  const auto m =
      three_layers_of("{type: fixed_seq_qk, num_attention_heads: 3, reference_ids: [5, 6, 5, 6, 5, 6, 5, 6, 5]}", true);
  Tape tape;
  tape.backward(sum(m->forward(kit::ids_of({1, 2, 3}), Sequences::single(3))));
  const Tensor g = m->parameters().find("embedding.weight")->master.grad();
  const auto size = [&](int64_t id) {
    double total = 0;
    for (int64_t c = 0; c < g.cols(); ++c) total += std::abs(value_at(g, id * g.cols() + c));
    return total;
  };
  EXPECT_GT(size(5), 0);
  EXPECT_GT(size(1), 0);
  EXPECT_EQ(size(9), 0);
}

TEST(FixedSeqQk, RefusesATextBeyondTheFixedSequenceAndWrongIds) {
  const auto m =
      three_layers_of("{type: fixed_seq_qk, num_attention_heads: 3, reference_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9]}");
  EXPECT_THROW(m->forward(kit::random_ids(10, 19, 1), Sequences::single(10)), Error);
  EXPECT_THROW(
      three_layers_of("{type: fixed_seq_qk, num_attention_heads: 3, reference_ids: [1, 2, 3, 4, 5, 6, 7, 8, 19]}"),
      Error);
}

}  // namespace
}  // namespace lithe
