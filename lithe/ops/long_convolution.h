// Convolutions along time whose taps reach far, by Fourier transforms (spec ssm.conv), over packed sequences.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// Rows that are convolved directly where nothing else is said: shorter reaches would gain nothing.
constexpr int64_t kDirectRows = 512;

/// y[t, c] = sum_r taps[r, c] x[t + ahead - r, c] along each sequence, zeros beyond it: what convolution() gives, up to
/// rounding, in time that hardly grows with the number of taps. x [N, C]; taps [k, C] f32 (f64 for f64); `complex`: the
/// first half of the columns of both are real parts, the second imaginary ones. Blocks of `direct_rows` rows, a power
/// of two, meet taps directly within themselves and in the frequency domain what lies before them, whose transforms
/// have twice as many rows, so that nothing wraps around: with `ahead` 0 later rows change no earlier ones, to the bit.
/// Results of a sequence do not depend on others, nor on taps beyond its length.
Var long_convolution(const Var& x, const Var& taps, const Sequences& sequences, int64_t ahead = 0, bool complex = false,
                     int64_t direct_rows = kDirectRows);

}  // namespace lithe
