// Residuals alone, and branches for them to wrap.
#pragma once

#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/model_kit.h"

namespace lithe {

constexpr int64_t kResidualWidth = 5;

/// A residual with layer norm; seed 0: the norm's weights as they start, else generic ones.
struct NormedResidual {
  explicit NormedResidual(const std::string& type, const std::string& norm_options = "{}", uint64_t seed = 4)
      : norm(bench.make<Norm>("layer", {.hidden_size = kResidualWidth}, norm_options, "norm")),
        part(bench.make<Residual>(type, {.norm = norm.get(), .dropout = &dropout})) {
    if (seed) kit::randomise(bench.parameters(), seed);
  }
  kit::Bench bench;
  Dropout dropout;
  std::unique_ptr<Norm> norm;
  std::unique_ptr<Residual> part;
};

/// A norm that changes nothing, so that F is what the test says.
struct NoNorm final : Norm {
  Var forward(const Var& x) const override { return x; }
};

/// F, and F = 0.
inline Var generic_branch(const Var& x, int64_t = 0) {
  return activate(kernels::Activation::silu,
                  linear(x, Var(kit::normal({kResidualWidth, kResidualWidth}, DType::f64, 8))));
}
inline Var zero_branch(const Var& x, int64_t = 0) { return scale(x, 0); }

inline const Tensor& residual_rows() {
  static const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  return x;
}

/// A decoder of two layers with this residual has `states` states a layer, and decodes what it computes at once, within
/// `bound`.
inline void expect_decodes_with_states(const std::string& residual, int64_t states, double bound) {
  const ModelConfig config = kit::model_config(
      "{hidden_size: 8, num_hidden_layers: 2, vocab_size: 11, max_position_embeddings: 9, mixer: {type: attention, "
      "num_attention_heads: 2}, residual: " +
      residual + "}");
  Model model(config, {.dtype = DType::f64, .compute = DType::f64});
  EXPECT_EQ(model.state_bytes({5}), 2 * states * 5 * 2 * 8 * 8);  // layers, states, tokens, keys and values
  const auto state = model.make_state(1, 9);
  const Tensor ids = kit::random_ids(6, 11, 3), whole = kit::forward(model, ids, Sequences::single(6)).value();
  for (int64_t t = 0; t < 6; ++t) {
    const Var row = kit::forward(model, clone(ids.slice(t, t + 1)), model.continue_sequences(*state, {1}), state.get());
    EXPECT_LE(kit::largest_difference(row.value(), clone(whole.slice(t, t + 1))), bound);
  }
  EXPECT_EQ(state->bytes(), model.state_bytes({6}));
}

}  // namespace lithe
