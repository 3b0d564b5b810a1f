// Losses of labels whose places among the rows are not known (spec app.ctc).
#pragma once

#include <vector>

#include "lithe/ops/loss.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// scale * sum over the sequences of -log P(labels | rows), see kernels/ctc/ctc.h: logits [N,C], the blank last; labels
/// i32 [M] in [0, C-1) in sequences of their own; a scalar [1]. `sums` counts all labels; sequences whose rows are too
/// few have a loss of zero and no gradient with `zero_infinity`, else they are an error. `sequence_nll` [B], optional,
/// receives the losses.
Var ctc_loss(const Var& logits, const Sequences& sequences, const Tensor& labels, const Sequences& label_sequences,
             double scale, bool zero_infinity, LossSums* sums = nullptr, Tensor sequence_nll = {});

/// The labels that the likeliest classes of rows [begin, end) write: repetitions once, without blanks.
std::vector<int32_t> ctc_best_path(const Tensor& logits, int64_t begin, int64_t end);

}  // namespace lithe
