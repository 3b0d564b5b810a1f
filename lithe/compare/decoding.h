// A prompt for each of some sequences and then single tokens, for timing and for counting work.
#pragma once

#include "lithe/infer/decode_loop.h"

namespace lithe::compare {

/// On real tensors, or on meta ones where the model is.
class Decoding {
 public:
  /// `ids` are repeated as often as needed; `tokens` can be decoded after the prompt. `cache`: as DecodeBudget has it.
  Decoding(const Model& model, int64_t batch, int64_t prompt, int64_t tokens, const std::vector<int32_t>& ids,
           std::optional<DType> cache = {});
  void prefill() { loop_.step(); }
  void decode() { loop_.step(); }
  int64_t state_bytes() const { return loop_.times().peak_state_bytes; }

 private:
  DecodeLoop loop_;
};

}  // namespace lithe::compare
