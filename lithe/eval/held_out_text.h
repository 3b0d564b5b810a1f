// A held-out text that runs in its order, with carried states.
#pragma once

#include "lithe/data/batches.h"
#include "lithe/eval/held_out.h"

namespace lithe {

/// Scored as `lithe eval` does with eval.carry_state.
class HeldOutText final : public HeldOut {
 public:
  HeldOutText(TokenStore text, int64_t batch_tokens);
  const BatchSource& batches() const override { return batches_; }
  std::optional<HeldOutScores> score(const Model& model, const Progress& progress) const override;

 private:
  TokenStore text_;
  int64_t batch_tokens_;
  BatchOrder batches_;
};

}  // namespace lithe
