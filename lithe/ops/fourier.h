// Fourier mixing (spec mixer.fnet).
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// Re(DFT over tokens of (DFT over channels of x)), unnormalised, sequence by sequence: x [N, d] -> [N, d].
Var fourier(const Var& x, const Sequences& sequences);

}  // namespace lithe
