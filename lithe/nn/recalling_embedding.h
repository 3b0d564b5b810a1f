// Embeddings that read the tokens before each one, also those that a decode state must remember.
#pragma once

#include "lithe/nn/slots.h"

namespace lithe {

/// A row depends on the tokens of its sequence before it.
class RecallingEmbedding : public Embedding {
 public:
  /// Tokens of these sequences; with a state, that of make_state(), they continue it and bring it forward.
  virtual Var read(const Tensor& tokens, const Sequences& sequences, State* state) const = 0;
  virtual std::unique_ptr<State> make_state(const StateShape& shape) const = 0;
  virtual int64_t state_bytes(int64_t sequences) const = 0;
  const RecallingEmbedding* recalling() const final { return this; }
  /// All tokens are of one sequence.
  Var forward(const Tensor& tokens, const Pass&) const final {
    return read(tokens, Sequences::single(tokens.dim(0), tokens.device()), nullptr);
  }
};

}  // namespace lithe
