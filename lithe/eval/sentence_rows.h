// One row of numbers for each text.
#pragma once

#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/truncation.h"

namespace lithe {

/// Pooled rows of the last layer (pool() in ops/pool.h): f32 [texts, hidden_size]. Texts are framed as in fine-tuning
/// and cut to `max_tokens`, and run in batches of `batch_tokens` at most (0: 32 of the longest). Equal texts have equal
/// rows, to the bit, whatever they are run with.
Tensor sentence_rows(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                     const std::string& pooling, int64_t max_tokens, const Truncation& truncation = {},
                     int64_t batch_tokens = 0);

}  // namespace lithe
