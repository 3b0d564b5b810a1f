// A prompt for each of some sequences and then single tokens, for timing and for counting work.
#pragma once

#include "lithe/model/model.h"

namespace lithe::compare {

/// On real tensors, or on meta ones where the model is.
class Decoding {
 public:
  /// `ids` are repeated as often as needed; `tokens` can be decoded after the prompt.
  Decoding(const Model& model, int64_t batch, int64_t prompt, int64_t tokens, std::vector<int32_t> ids);
  void prefill() { feed(prompt_); }
  void decode() { feed(1); }
  int64_t state_bytes() const { return state_->bytes(); }

 private:
  const Model& model_;
  int64_t batch_, prompt_;
  std::vector<int32_t> ids_;
  std::unique_ptr<DecodeState> state_;
  size_t next_ = 0;

  void feed(int64_t tokens);
};

}  // namespace lithe::compare
