// Models whose tokens meet by maps that do not depend on all of the text.
#pragma once

#include <gtest/gtest.h>

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

}  // namespace lithe
