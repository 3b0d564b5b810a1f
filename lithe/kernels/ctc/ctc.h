// Connectionist temporal classification: the loss of labels whose places among the rows are not known [TB 6.5.3].
#pragma once

#include <vector>

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// losses[b] = -log of the sum, over all ways to write the labels of sequence b into its rows, of the product of the
/// rows' probabilities. A way gives every row a class: the labels in their order, each on one row or several in
/// succession, and the blank, which is the last class, on any rows between; two equal labels have a blank between them.
/// No way fits (too few rows): losses[b] is infinite and its gradient 0.
///
/// logits [N,C] f64, f32 or bf16, of sequence b the rows [offsets[b], offsets[b+1]); labels i32 [M] in [0, C-1), of
/// sequence b those of [label_offsets[b], label_offsets[b+1]); losses [B] f32 (f64 for f64). When `gradient` is set,
/// logits are overwritten by gradient_scale times the gradients of the losses.
struct CtcArgs {
  Tensor logits, labels, losses;
  const std::vector<int64_t>&offsets, &label_offsets;
  double gradient_scale = 1;
  bool gradient = false;
};
Cost cost(const CtcArgs& args);
/// Workspace: for every thread the ctc_work() of the sequence where that is largest, in f64.
void ctc(const CtcArgs& args);

/// Rows that a sequence needs for its labels: one each, and a blank between equal neighbours.
int64_t ctc_rows(const int32_t* labels, int64_t count);

/// Two tables of rows times states, a number a row and one a class.
inline int64_t ctc_work(int64_t rows, int64_t labels, int64_t classes) {
  return rows * (2 * (2 * labels + 1) + 1) + classes;
}

}  // namespace lithe::kernels
