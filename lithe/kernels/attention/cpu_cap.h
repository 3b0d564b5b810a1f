// Logits that are capped: c tanh(logit / c).
#pragma once

#include "lithe/kernels/attention/cpu.h"
#include "lithe/kernels/elementwise/cpu_activation.h"

namespace lithe::kernels::cpu::LITHE_ISA {

/// Products to capped logits over the scale, in place, so that what follows is as without a cap. `slopes`, unless null,
/// gets the derivatives; those of what is no number are 0, as tiles hold such in places that no query sees.
[[gnu::noinline, maybe_unused]] static void cap_logits(const AttentionCall& call, int64_t count, float* logits,
                                                       float* slopes) {
  const float in = call.scale / call.softcap, out = call.softcap / call.scale;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Activated t = evaluate<Activation::tanh>(load(logits + i) * in);
    store(logits + i, t.value * out);
    if (slopes) store(slopes + i, t.slope == t.slope ? t.slope : Vec{});
  }
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
