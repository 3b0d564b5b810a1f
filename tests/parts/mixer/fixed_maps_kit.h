// Models whose tokens meet by maps that do not depend on all of the text.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/support/model_kit.h"

namespace lithe {

/// Three layers of this mixer in f64, with generic weights, over 19 ids and up to 9 tokens.
inline std::unique_ptr<Model> three_layers_of(const std::string& mixer, bool trainable = false,
                                              const std::string& architecture = "decoder") {
  auto out = std::make_unique<Model>(
      kit::model_config("{architecture: " + architecture +
                        ", vocab_size: 19, hidden_size: 12, num_hidden_layers: 3, max_position_embeddings: 9, ffn: "
                        "{type: swiglu, intermediate_size: 10}, mixer: " +
                        mixer + "}"),
      ModelOptions{.dtype = DType::f64, .compute = DType::f64, .trainable = trainable});
  kit::randomise(out->parameters(), 1);
  return out;
}

inline void expect_the_same_maps_for_any_text(const Model& m) {
  const auto a = kit::maps(m, kit::random_ids(7, 19, 3)), b = kit::maps(m, kit::random_ids(7, 19, 4)),
             longer = kit::maps(m, kit::random_ids(9, 19, 5));
  for (size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(kit::bit_difference(a[layer].weights, b[layer].weights), "");
    // The map of a shorter text is the leading block of a longer one's.
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t i = 0; i < 7; ++i)
        for (int64_t j = 0; j < 7; ++j)
          ASSERT_NEAR(value_at(a[layer].weights, (h * 7 + i) * 7 + j),
                      value_at(longer[layer].weights, (h * 9 + i) * 9 + j), 1e-6);
  }
}

// ---- mixers of queries and keys of a reference, and values of the text

/// The options of such a mixer for three_layers_of.
inline std::string with_reference(const std::string& type) { return "{type: " + type + ", num_attention_heads: 3}"; }

inline void expect_linear_in_the_values(const std::string& type) {
  kit::Bench bench;
  const auto mixer =
      bench.make<Mixer>(type, {.hidden_size = 6, .max_position_embeddings = 9}, "{num_attention_heads: 3}");
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

/// The batch shares one copy of the keys: (B + 1) L d scalars.
inline void expect_state_of_one_copy_of_keys(const std::string& type) {
  const auto m = three_layers_of(with_reference(type)),
             standard = three_layers_of("{type: attention, num_attention_heads: 3}");
  EXPECT_EQ(m->parameters().count(), standard->parameters().count());
  for (int64_t B : {1, 4}) {
    EXPECT_EQ(m->state_bytes(std::vector<int64_t>(size_t(B), 8)), 3 * (B + 1) * 8 * 12 * 8);
    const auto state = m->make_state(B, 9);
    const Tensor ids = kit::random_ids(8 * B, 19, 1);
    kit::forward(*m, ids, m->continue_sequences(*state, std::vector<int64_t>(size_t(B), 8)), state.get());
    EXPECT_EQ(state->bytes(), 3 * (B + 1) * 8 * 12 * 8);
  }
  // B = 1, L = 2048, d = 896 in half precision: as much as standard attention; B = 32: 0.516 of it.
  kit::Bench bench(DType::f32, DType::f32, Device::meta);
  const auto wide =
      bench.make<Mixer>(type, {.hidden_size = 896, .max_position_embeddings = 2048}, "{num_attention_heads: 14}");
  EXPECT_EQ(wide->state_bytes({2048}, DType::bf16), 7'340'032);
  EXPECT_EQ(wide->state_bytes(std::vector<int64_t>(32, 2048), DType::bf16), 121'110'528);
}

/// Queries and keys of the last layer act on the text through the reference alone, and learn.
inline void expect_learning_through_the_reference(const std::string& type) {
  const auto m = three_layers_of(with_reference(type), true);
  Tape tape;
  tape.backward(sum(kit::forward(*m, kit::random_ids(6, 19, 2), Sequences::single(6))));
  for (const char* name :
       {"layers.2.mixer.heads.q.weight", "layers.2.mixer.heads.k.weight", "layers.0.mixer.heads.v.weight"}) {
    const Tensor g = m->parameters().find(name)->master.grad();
    ASSERT_TRUE(g.defined()) << name;
    double total = 0;
    for (int64_t i = 0; i < g.numel(); ++i) total += std::abs(value_at(g, i));
    EXPECT_GT(total, 1e-9) << name;
  }
}

}  // namespace lithe
