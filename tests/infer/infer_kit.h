// Small models that read and write bytes, and how they are asked.
#pragma once

#include <gtest/gtest.h>

#include "lithe/base/threads.h"
#include "lithe/infer/generate.h"
#include "tests/support/model_kit.h"

namespace lithe {

inline const std::unique_ptr<Tokenizer> kBytes = make_byte_tokenizer();

/// A model with generic weights: bytes in, bytes out.
inline std::unique_ptr<Model> byte_model(const std::string& position = "rotary", int64_t positions = 64,
                                         uint64_t seed = 4, int64_t layers = 2,
                                         const std::string& mixer = "attention") {
  set_threads(1);  // models this small gain nothing from more
  auto model = std::make_unique<Model>(
      kit::model_config(cat("{vocab_size: 257, hidden_size: 16, num_hidden_layers: ", layers,
                            ", max_position_embeddings: ", positions, ", position: ", position, ", mixer: {type: ",
                            mixer, ", num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}}")),
      ModelOptions{.seed = seed});
  kit::randomise(model->parameters(), seed, 0.6);
  return model;
}

inline GenerateConfig settings(bool sample, int64_t tokens = 20) {
  GenerateConfig c;
  c.do_sample = sample;
  c.max_new_tokens = tokens;
  return c;
}

}  // namespace lithe
