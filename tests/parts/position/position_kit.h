// Attention with positions, alone.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {

/// Attention of width 8 over up to 16 tokens; `more` further options of the mixer. Parameters: position.*, mixer.*.
struct PositionedAttention {
  PositionedAttention(const std::string& type, const std::string& options, bool causal, int64_t heads = 2,
                      const std::string& more = "")
      : causal(causal),
        position(bench.make<Position>(
            type, {.hidden_size = 8, .max_position_embeddings = 16, .num_attention_heads = heads, .causal = causal},
            options, "position")),
        mixer(bench.make<Mixer>(
            "attention",
            {.hidden_size = 8, .max_position_embeddings = 16, .causal = causal, .position = position.get()},
            cat("{num_attention_heads: ", heads, more.empty() ? "" : ", ", more, "}"), "mixer")) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  bool causal;
  kit::Bench bench;
  std::unique_ptr<Position> position;
  std::unique_ptr<Mixer> mixer;
};

}  // namespace lithe
