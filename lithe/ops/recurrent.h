// Recurrent layers over packed sequences: one product of all sequences a step (spec rnn.elman, rnn.lstm, rnn.gru).
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/recurrent_cell/recurrent_cell.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// Scalars of a sequence's state for rows of d channels: h, and of lstm c.
constexpr int64_t recurrent_state(kernels::RecurrentCell kind, int64_t d) {
  return kind == kernels::RecurrentCell::lstm ? 2 * d : d;
}

/// h of every row, [N, d], from what the rows give to the gates, x [N, G*d], and the step before, h' w + bias, w [d,
/// G*d], bias [G*d] f32 (f64 for f64) or undefined; kernels::RecurrentCell says how they meet. Each sequence starts
/// from zeros, or continues states[b] [recurrent_state] f32 (f64 for f64) and brings it forward; gradients take it as a
/// constant. Results of a sequence do not depend on the others, to the bit.
Var recurrent(kernels::RecurrentCell kind, const Var& x, const Var& w, const Var& bias, const Sequences& sequences,
              const std::vector<Tensor>& states = {});

/// One row a sequence after a step: h [n, d], and of lstm c [n, d] f32 (f64 for f64).
struct RecurrentRows {
  Var hidden, cell;
};

/// One step, for what can only be known row by row: x [n, G*d] as in recurrent(), `before` what the n sequences had.
/// Gradients go to all of them.
RecurrentRows recurrent_step(kernels::RecurrentCell kind, const Var& x, const Var& w, const Var& bias,
                             const RecurrentRows& before);

}  // namespace lithe
