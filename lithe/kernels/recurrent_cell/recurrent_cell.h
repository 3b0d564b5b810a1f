// One step of recurrent layers after their products (spec rnn.elman, rnn.lstm, rnn.gru): gates, cell and hidden rows of
// sequences that stand side by side.
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

enum class RecurrentCell {
  linear,  // h = x
  elman,   // h = tanh(x)
  lstm,    // x in parts i, f, g, o:  c = sigmoid(f) c' + sigmoid(i) tanh(g),  h = sigmoid(o) tanh(c)
  gru,     // x and y in parts r, z, n:  r, z = sigmoid(x + y),  n = tanh(x + r y),  h = (1 - z) n + z h'
};
constexpr int64_t gates_of(RecurrentCell kind) {
  return kind == RecurrentCell::lstm ? 4 : kind == RecurrentCell::gru ? 3 : 1;
}

/// gates [n, G*d] holds x, products of the recurrent rows included but for gru, and receives the gates after their
/// functions. recurrent [n, 3d] (gru): y. before [n, d] (gru): h'. hidden [n, d] receives h. All of one type.
/// cell_before and cell [n, d] in f32 (f64 for f64), lstm: c' and c. kept [n, d], gru: receives the part n of y.
struct RecurrentCellArgs {
  RecurrentCell kind;
  Tensor gates, hidden, recurrent, before, kept, cell_before, cell;
};
Cost cost(const RecurrentCellArgs& args);
void recurrent_cell(const RecurrentCellArgs& args);

/// From dhidden: dgates [n, G*d] of x; gru: drecurrent [n, 3d] of y, and dbefore [n, d], optional, which what h' gets
/// directly is added to. lstm: dcell [n, d] holds what c gets from later steps, and receives what c' gets.
struct RecurrentCellGradArgs {
  RecurrentCellArgs forward;  // after it ran
  Tensor dhidden, dgates, drecurrent, dbefore, dcell;
};
Cost cost(const RecurrentCellGradArgs& args);
void recurrent_cell_grad(const RecurrentCellGradArgs& args);

}  // namespace lithe::kernels
