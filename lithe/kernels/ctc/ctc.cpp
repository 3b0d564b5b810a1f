#include "lithe/kernels/ctc/ctc.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/ctc/reference.h"

namespace lithe::kernels {
namespace {

struct CtcTask {
  CtcArgs args;
  Tensor work;  // f64 [parts, numbers]
};

double cells(const CtcArgs& a) {
  double sum = 0;
  for (size_t b = 0; b + 1 < a.offsets.size(); ++b)
    sum += double(a.offsets[b + 1] - a.offsets[b]) * double(2 * (a.label_offsets[b + 1] - a.label_offsets[b]) + 1);
  return sum;
}
Cost cost(const CtcTask& task) { return cost(task.args); }

void ctc_ref(const CtcTask& task) {
  dispatch_float(task.args.logits.dtype(), [&]<class T>() {
    ref::ctc<T>(task.args, task.work.data<double>(), task.work.cols(), task.work.rows());
  });
}

}  // namespace

// A logarithm of a sum is 8 FLOPs; two of them a state forward, two backward, and a share.
Cost cost(const CtcArgs& a) {
  return {double(a.logits.numel()) * (4 + 4 * a.gradient) + cells(a) * (a.gradient ? 36 : 17),
          bytes_of({a.logits, a.labels, a.losses})};
}

// spec: app.ctc | objective | connectionist temporal classification: the sum over all alignments | TB 6.5.3
void ctc(const CtcArgs& a) {
  const char* op = "ctc";
  check_rows(op, {"logits", a.logits});
  const auto B = int64_t(a.offsets.size()) - 1;
  const int64_t C = a.logits.cols();
  check(B >= 0 && a.offsets.back() == a.logits.rows(), op, "offsets must end at the ", a.logits.rows(),
        " rows of logits, got ", a.offsets.size(), " of them, ending at ", a.offsets.empty() ? 0 : a.offsets.back());
  check(a.label_offsets.size() == a.offsets.size() && a.label_offsets.back() == a.labels.numel() &&
            a.labels.dtype() == DType::i32,
        op, "labels ", a.labels.dtype(), a.labels.shape(), " must be i32, in as many sequences as the rows, ", B,
        ", got ", a.label_offsets.size(), " offsets");
  check(a.losses.dtype() == wide_of(a.logits.dtype()) && a.losses.numel() == B, op, "losses must be ",
        wide_of(a.logits.dtype()), "[", B, "], got ", a.losses.dtype(), a.losses.shape());
  check(C >= 2, op, "logits need a column for the blank beside those of the labels, got ", C);
  int64_t each = 1;
  for (size_t b = 0; b + 1 < a.offsets.size(); ++b) {
    check(a.offsets[b] <= a.offsets[b + 1] && a.label_offsets[b] <= a.label_offsets[b + 1], op, "sequence ", b,
          " ends before it begins");
    each = std::max(each, ctc_work(a.offsets[b + 1] - a.offsets[b], a.label_offsets[b + 1] - a.label_offsets[b], C));
  }
  if (!a.labels.is_meta())
    for (int64_t i = 0; i < a.labels.numel(); ++i)
      check(a.labels.data<int32_t>()[i] >= 0 && a.labels.data<int32_t>()[i] < C - 1, op, "label ", i,
            " must be below the blank, ", C - 1, ", and not negative, got ", a.labels.data<int32_t>()[i]);
  const MemoryScope scope(MemoryClass::workspace);
  run_kernel<CtcTask>(
      op, a.logits.is_meta(), {{"ref", Isa::generic, nullptr, ctc_ref}},
      {a, empty({std::min<int64_t>(threads(), std::max<int64_t>(B, 1)), each}, DType::f64, a.logits.device())});
}

int64_t ctc_rows(const int32_t* labels, int64_t count) {
  int64_t rows = count;
  for (int64_t i = 1; i < count; ++i) rows += labels[i] == labels[i - 1];
  return rows;
}

}  // namespace lithe::kernels
