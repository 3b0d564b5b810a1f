// A model small enough to be compressed in a moment.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {

constexpr const char* kSmall =
    "{vocab_size: 11, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 20, token_width: 1, mixer: "
    "{type: attention, num_attention_heads: 4}}";

}  // namespace lithe
