// Combiners alone, over rows that a test gives.
#pragma once

#include "lithe/nn/combiner.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe::kit {

struct Combining {
  explicit Combining(const std::string& type, const std::string& options = "{}", int64_t width = 4,
                     int64_t encoders = 2)
      : part(bench.make<Combiner>(type, {.hidden_size = width, .max_position_embeddings = 20, .encoders = encoders},
                                  options)) {
    randomise(bench.parameters(), 3);
  }
  Rows operator()(const std::vector<Rows>& rows) const { return part->forward(rows, Pass::nowhere()); }
  Bench bench;
  std::unique_ptr<Combiner> part;
};

inline Rows some_rows(const std::vector<int64_t>& offsets, uint64_t seed, int64_t width = 4) {
  return {Var(normal({offsets.back(), width}, DType::f64, seed)), Sequences(offsets)};
}

/// Words of texts, and the rows of phrases that a compressor made of as many: phrase of each word.
inline Rows some_phrases(const Rows& words, const std::vector<int64_t>& phrase_of, const std::vector<int64_t>& offsets,
                         uint64_t seed) {
  Rows out = some_rows(offsets, seed, words.x.cols());
  out.shortened = std::make_shared<Shortening>(Shortening{words, phrase_of});
  return out;
}

}  // namespace lithe::kit
