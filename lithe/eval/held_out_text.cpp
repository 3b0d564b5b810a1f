#include "lithe/eval/held_out_text.h"

#include "lithe/base/stop.h"
#include "lithe/eval/perplexity.h"

namespace lithe {

HeldOutText::HeldOutText(TokenStore text, int64_t batch_tokens)
    : text_(text), batch_tokens_(batch_tokens), batches_(std::move(text), batch_tokens, batch_tokens, 0, false) {}

std::optional<HeldOutScores> HeldOutText::score(const Model& model, const Progress& progress) const {
  if (stop_signal()) return std::nullopt;
  EvalConfig config;
  config.batch_tokens = batch_tokens_;
  config.carry_state = true;
  try {
    const Perplexity p = perplexity(model, text_, config, batch_tokens_, progress);
    return HeldOutScores{.loss = p.loss(), .best = -p.loss(), .perplexity = true, .bits_per_byte = p.bits_per_byte()};
  } catch (const Error&) {
    if (stop_signal()) return std::nullopt;
    throw;
  }
}

}  // namespace lithe
