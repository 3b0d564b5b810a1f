#include "lithe/ops/ctc.h"

#include <cmath>

#include "lithe/kernels/ctc/ctc.h"
#include "lithe/kernels/elementwise/elementwise.h"

namespace lithe {

Var ctc_loss(const Var& logits, const Sequences& sequences, const Tensor& labels, const Sequences& label_sequences,
             double scale, bool zero_infinity, LossSums* sums, Tensor sequence_nll) {
  const int64_t count = sequences.count();
  check(label_sequences.count() == count, "ctc_loss", "there are labels of ", label_sequences.count(),
        " sequences for rows of ", count);
  const DType type = wide_of(logits.dtype());
  const Tensor losses = sequence_nll.defined() ? sequence_nll : empty({count}, type, logits.device()),
               work = clone(logits.value());
  kernels::ctc({.logits = work,
                .labels = labels,
                .losses = losses,
                .offsets = sequences.offsets(),
                .label_offsets = label_sequences.offsets(),
                .gradient_scale = scale,
                .gradient = Tape::current() != nullptr});
  LossSums mine;
  for (int64_t b = 0; b < count && !losses.is_meta(); ++b) {
    const double loss = value_at(losses, b);
    const int64_t of = label_sequences.length(b);
    if (std::isinf(loss)) {
      const int64_t needed = kernels::ctc_rows(labels.data<int32_t>() + label_sequences.offset(b), of);
      check(zero_infinity, "ctc_loss", "the ", of, " labels of sequence ", b, " need ", needed,
            " rows (one each, and one between equal neighbours), got ", sequences.length(b),
            "; give longer inputs, compress less, or leave such examples out with zero_infinity: true");
      mine += {.labels = of};  // the loss is divided by all labels, as its gradient is
      continue;
    }
    mine += {.loss = loss, .nll = loss, .labels = of};
  }
  if (sums) *sums = mine;
  const Tensor total = empty({1}, type, logits.device());
  if (!total.is_meta()) set_value(total, 0, scale * mine.loss);
  return record("ctc_loss", {logits}, total, [x = logits.ref(), work](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::add(
        {.a = work, .b = dx.accumulate ? dx.to : Tensor(), .out = dx.to, .alpha = dy.is_meta() ? 1 : value_at(dy, 0)});
  });
}

std::vector<int32_t> ctc_best_path(const Tensor& logits, int64_t begin, int64_t end) {
  const int64_t blank = logits.cols() - 1;
  std::vector<int32_t> out;
  int64_t last = blank;
  for (int64_t t = begin; t < end; ++t) {
    int64_t best = 0;
    for (int64_t c = 1; c <= blank; ++c)
      if (value_at(logits, t * (blank + 1) + c) > value_at(logits, t * (blank + 1) + best)) best = c;
    if (best != last && best != blank) out.push_back(int32_t(best));
    last = best;
  }
  return out;
}

}  // namespace lithe
